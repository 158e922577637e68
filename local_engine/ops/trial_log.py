"""Results of the trials at start, for the table of `strowger doctor --engine`.

A start compares kernels, the sampler and the whole model with torch's or transformers' own
results, each in its own place. While `recorded` is active, each of them adds a row here.
"""

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

from strowger_gateway.local_engine.protocol.diagnosis import Tried

SHAPES = 4
"""Shapes of a trial that are listed; the others are counted."""


class Trying:
    """A trial in progress, to be filled in by the one who runs it."""

    def __init__(self) -> None:
        self.tried = ""
        self.gap: float | None = None
        self.problem = ""
        self._shapes: dict[str, None] = {}

    def seen(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the pairs (a result, the reference's) and note shapes and differences."""
        for mine, theirs in pairs:
            if _rows.get() is not None:
                self._note(mine, theirs)
            yield mine, theirs

    def _note(self, mine: Tensor, theirs: Tensor) -> None:
        shape = "x".join(str(size) for size in mine.shape)
        self._shapes.setdefault(shape)
        listed = list(self._shapes)
        more = f" and {len(listed) - SHAPES} more" if len(listed) > SHAPES else ""
        self.tried = ", ".join(listed[:SHAPES]) + more
        if mine.shape == theirs.shape and mine.numel():
            gap = float((mine.cpu().float() - theirs.cpu().float()).abs().max())
            self.gap = max(gap, self.gap or 0.0)


_rows: ContextVar[list[Tried] | None] = ContextVar("trials", default=None)


@contextmanager
def recorded() -> Generator[list[Tried]]:
    """Return a list that receives every trial of this thread, in order."""
    rows: list[Tried] = []
    token = _rows.set(rows)
    try:
        yield rows
    finally:
        _rows.reset(token)


@contextmanager
def trying(role: str, kernel: str) -> Generator[Trying]:
    """Time a trial and record it, also if it raises: then with the exception as its problem."""
    one = Trying()
    begin = time.monotonic()
    try:
        yield one
    except Exception as exc:
        one.problem = one.problem or " ".join(str(exc).split())
        raise
    finally:
        rows = _rows.get()
        if rows is not None:
            rows.append(
                Tried(
                    role=role,
                    kernel=kernel,
                    tried=one.tried,
                    gap=one.gap,
                    seconds=time.monotonic() - begin,
                    problem=one.problem,
                )
            )
