"""Retry a step in smaller parts when the device fails, usually out of memory.

The cache is allocated once, so freeing pages does not free memory for a step. The step is split
in halves, the better ranks first, and again in halves, until everything is computed or a single
token fails. Only that token's answer fails. Steps stay small for a while afterwards.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.local_engine.ops.device_faults import first_line, meaning
from strowger_gateway.local_engine.scheduling.sequence import State
from strowger_gateway.local_engine.scheduling.steps import Chunk

STEPS_BEFORE_GROWTH = 64
"""Steps without a failure after which the budget is doubled again."""

MAX_FAILED_STEPS = 8
"""Consecutive steps without any result after which the device counts as broken."""

T = TypeVar("T")


class Computed(Struct, Generic[T], frozen=True, kw_only=True, eq=False):
    """Chunks that were computed together, and the result."""

    chunks: tuple[Chunk, ...]
    result: T


class Refused(Struct, frozen=True, kw_only=True, eq=False):
    """A chunk that fails even on its own. reason: the device's message."""

    chunk: Chunk
    reason: str


class BrokenDevice(RuntimeError):
    """The device cannot compute anything any more; a new process may help."""


class OomBackoff:
    """Computes steps whole or in parts, and lowers the token budget after failures."""

    def __init__(self, most: int) -> None:
        """most: the token budget of a step."""
        self._most = most
        self._clean_steps = 0
        self._failed_steps = 0
        self.budget = most
        """Most tokens of the next step."""

    def parts(
        self, chunks: Sequence[Chunk], compute: Callable[[tuple[Chunk, ...]], T]
    ) -> Iterator[Computed[T] | Refused]:
        """Compute all chunks in one part or several, in order; skip those of sequences that end
        in between.

        compute: raises RuntimeError or MemoryError if the part is too large, without side
        effects. Raises BrokenDevice.
        """
        whole = tuple(chunks)
        largest, refused, pieces = 0, 0, 0
        for part in _parts(whole, compute):
            pieces += 1
            match part:
                case Computed():
                    largest = max(largest, sum(chunk.count for chunk in part.chunks))
                case Refused():
                    refused += 1
            yield part
        self._learn(largest, refused=refused > 0, clean=pieces == 1 and refused == 0)

    def _learn(self, largest: int, *, refused: bool, clean: bool) -> None:
        """Adjust the budget. If a single token failed, the size was not the cause."""
        self._failed_steps = self._failed_steps + 1 if largest == 0 else 0
        if self._failed_steps >= MAX_FAILED_STEPS:
            raise BrokenDevice(f"{MAX_FAILED_STEPS} consecutive steps computed nothing")
        self._clean_steps = self._clean_steps + 1 if clean else 0
        if self._clean_steps >= STEPS_BEFORE_GROWTH:
            self.budget, self._clean_steps = min(self._most, 2 * self.budget), 0
        if not clean and not refused:
            self.budget = largest


def _parts(
    chunks: tuple[Chunk, ...], compute: Callable[[tuple[Chunk, ...]], T]
) -> Iterator[Computed[T] | Refused]:
    reason = ""
    try:
        result = compute(chunks)
    except (RuntimeError, MemoryError) as exc:
        if meaning(exc) == "device":
            raise BrokenDevice(f"the device failed: {first_line(exc)}") from exc
        reason = str(exc) or type(exc).__name__
    else:
        yield Computed(chunks=chunks, result=result)
        return
    # The failed attempt's tensors are freed here, because the exception that held them is gone.
    halves = _halves(chunks)
    if halves is None:
        yield Refused(chunk=chunks[0], reason=reason)
        return
    lost: set[int] = set()
    for half in halves:
        left = tuple(
            chunk
            for chunk in half
            if chunk.sequence.id not in lost and chunk.sequence.state is not State.FINISHED
        )
        if not left:
            continue
        for part in _parts(left, compute):
            if isinstance(part, Refused):
                lost.add(part.chunk.sequence.id)
            yield part


def _halves(chunks: tuple[Chunk, ...]) -> tuple[tuple[Chunk, ...], tuple[Chunk, ...]] | None:
    """Split by tokens, better ranks first; a single chunk is cut before the rows to sample from."""
    if len(chunks) == 1:
        (chunk,) = chunks
        left = min(chunk.count // 2, chunk.count - max(chunk.rows, 1))
        if left < 1:
            return None
        first = replace(chunk, count=left, rows=0)
        rest = replace(chunk, start=chunk.start + left, count=chunk.count - left)
        return (first,), (rest,)
    ranked = sorted(chunks, key=lambda chunk: chunk.sequence.rank)
    half, tokens, taken = sum(chunk.count for chunk in ranked) / 2, 0, 0
    while taken < len(ranked) - 1 and (taken == 0 or tokens + ranked[taken].count <= half):
        tokens += ranked[taken].count
        taken += 1
    return tuple(ranked[:taken]), tuple(ranked[taken:])
