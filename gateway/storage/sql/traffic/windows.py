"""The periods that charts show, and the cells that each is divided into."""

from typing import Final, Literal

Window = Literal["5m", "15m", "1h", "24h", "7d", "30d"]

STEPS: Final[dict[Window, int]] = {
    "5m": 5,
    "15m": 15,
    "1h": 60,
    "24h": 900,
    "7d": 7200,
    "30d": 28800,
}
"""Seconds of one cell of each window."""

CELLS: Final[dict[Window, int]] = {
    "5m": 60,
    "15m": 60,
    "1h": 60,
    "24h": 96,
    "7d": 84,
    "30d": 90,
}
"""Cells of each window."""

IN_MEMORY: Final[tuple[Window, ...]] = ("5m", "15m", "1h")
"""Those that every process also keeps in memory; the others come from the store."""


def span_of(window: Window, now: float) -> tuple[int, int]:
    """The window's start and end, Unix seconds, aligned to its cells. The last cell is running."""
    step = STEPS[window]
    end = (int(now) // step + 1) * step
    return end - CELLS[window] * step, end
