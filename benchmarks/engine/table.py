"""Prints the result of a comparison as a row of a Markdown table, for docs/benchmarks.md."""

import os
from collections.abc import Sequence

from benchmarks.engine.timing import Took, cpu_ratio, median_wall, wall_ratio


def head(*columns: str) -> None:
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


COMPARED = ("theirs tok/s", "ours tok/s", "ratio (quartiles)", "by CPU time", "load")


def compared(count: int, theirs: Sequence[Took], ours: Sequence[Took]) -> tuple[str, ...]:
    """The cells of the columns COMPARED, for `count` tokens per turn."""
    return (
        f"{count / median_wall(theirs):.1f}",
        f"{count / median_wall(ours):.1f}",
        f"{wall_ratio(theirs, ours):.2f}",
        f"{cpu_ratio(theirs, ours).middle:.2f}",
        f"{os.getloadavg()[0]:.1f}",
    )


def limit(step_bytes: int, bandwidth: float, took: Sequence[Took], steps: int) -> str:
    """Share of the memory bandwidth that the steps used."""
    return f"{step_bytes / bandwidth * steps / median_wall(took):.0%}"
