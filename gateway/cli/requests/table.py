"""One request in a line of a table."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from strowger_gateway.gateway.console.admin.request_log.views import RequestView

COLUMNS: Final = (
    "ENDED",
    "REQUEST",
    "STATUS",
    "ERROR",
    "MODEL",
    "BACKENDS",
    "KEY",
    "MS",
    "COST",
    "WHY",
)
_WHY: Final = 80
"""Characters of a message in a table."""


def row_of(one: RequestView) -> Sequence[str]:
    """Return the cells of COLUMNS."""
    why = one.message or one.refused
    tried = list(dict.fromkeys(attempt.backend for attempt in one.attempts))
    return (
        datetime.fromtimestamp(one.time, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        one.request_id,
        str(one.status),
        one.error,
        one.model or one.route,
        " > ".join(tried) or one.backend,
        one.key,
        f"{one.ms:,.0f}",
        usd(one.total_cost_usd),
        f"{why[:_WHY]}…" if len(why) > _WHY else why,
    )


def usd(cost: float | None) -> str:
    """Return a cost, to the last digit of one small request; "" if it is unknown."""
    if cost is None:
        return ""
    return f"${cost:,.2f}" if cost >= 100 or not cost else f"${cost:.6f}".rstrip("0").rstrip(".")
