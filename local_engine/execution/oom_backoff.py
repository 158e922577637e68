"""What happens when the device refuses a step, for want of memory most of all.

The cache is allocated once, so taking pages away frees nothing that a step needs: the step is
computed in halves instead, the better ranks first, and halves of halves, until all is computed or
a single token is refused. Only its answer fails. Steps stay small for a while afterwards.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import torch
from msgspec import Struct
from msgspec.structs import replace

from local_engine.scheduling.scheduler import Chunk
from local_engine.scheduling.sequence import State

STEPS_BEFORE_GROWTH = 64
"""Steps without a refusal, after which twice as much is tried again."""

MAX_FAILED_STEPS = 8
"""Steps in a row of which nothing at all could be computed: the device itself is broken."""

T = TypeVar("T")


class Computed(Struct, Generic[T], frozen=True, kw_only=True, eq=False):
    """Chunks that went through the model together, and what came of it."""

    chunks: tuple[Chunk, ...]
    result: T


class Refused(Struct, frozen=True, kw_only=True, eq=False):
    """A chunk that cannot be computed even alone. reason: the device's own words."""

    chunk: Chunk
    reason: str


class BrokenDevice(RuntimeError):
    """Nothing can be computed any more; a new process may do better."""


class OomBackoff:
    """Computes steps whole or in pieces, and remembers how much was too much."""

    def __init__(self, most: int) -> None:
        """most: the token budget of a step."""
        self._most = most
        self._clean_steps = 0
        self._failed_steps = 0
        self.budget = most
        """Tokens that the next step should have at most."""

    def parts(
        self, chunks: Sequence[Chunk], compute: Callable[[tuple[Chunk, ...]], T]
    ) -> Iterator[Computed[T] | Refused]:
        """Every chunk is in one part, or cut into several in their order; those of a sequence
        that ends in between are left out.

        compute: raises RuntimeError or MemoryError where it is too much, and has then changed
        nothing. Raises BrokenDevice.
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
        """A refused token explains the failure by itself; otherwise the size was to blame."""
        self._failed_steps = self._failed_steps + 1 if largest == 0 else 0
        if self._failed_steps >= MAX_FAILED_STEPS:
            raise BrokenDevice(f"nothing could be computed in {MAX_FAILED_STEPS} steps in a row")
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
    except torch.AcceleratorError as exc:
        raise BrokenDevice(f"the device failed: {exc}") from exc
    except (RuntimeError, MemoryError) as exc:
        reason = str(exc) or type(exc).__name__
    else:
        yield Computed(chunks=chunks, result=result)
        return
    # Here the failed attempt's tensors are gone, because the exception that held them is.
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
    """By tokens, the better ranks first; a lone chunk is cut before the rows that it draws from."""
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
