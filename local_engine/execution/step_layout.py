"""Lay out a step: which rows, slots and pages its chunks have, and what is read as one batch."""

from collections.abc import Iterable, Sequence

from strowger_gateway.local_engine.ops.attention import RAGGED, Group, Share, Span
from strowger_gateway.local_engine.scheduling.sequence import Sequence as TokenSequence
from strowger_gateway.local_engine.scheduling.steps import Chunk


def tokens_of(sequence: TokenSequence, start: int, end: int) -> list[int]:
    """Return the ids start … end - 1 of the tokens followed by the drafts."""
    found = sequence.tokens[start:end]
    if len(found) < end - start:
        found += sequence.drafts[: end - start - len(found)]
    return found


def kept_rows(chunk: Chunk) -> int:
    """Return how many of the chunk's last rows to keep: to sample from, or all of a prompt."""
    sequence = chunk.sequence
    whole = sequence.fresh and chunk.start < sequence.prompt
    return chunk.count if whole else chunk.rows


Laid = list[tuple[Chunk, tuple[tuple[int, int], ...]]]


def runs_of(chunk: Chunk, size: int) -> tuple[tuple[int, int], ...]:
    """Return the slot runs (first, length) of a sequence's keys up to the chunk's end."""
    total = chunk.start + chunk.count
    blocks = chunk.sequence.blocks[: -(-total // size)]
    # Most are in one piece: found without a loop in Python over every page of every step.
    if blocks == list(range(blocks[0], blocks[0] + len(blocks))):
        return ((blocks[0] * size, total),)
    runs: list[tuple[int, int]] = []
    first = previous = blocks[0]
    for block in blocks[1:]:
        if block != previous + 1:
            runs.append((first * size, (previous + 1 - first) * size))
            first = block
        previous = block
    done = sum(length for _, length in runs)
    runs.append((first * size, total - done))
    return tuple(runs)


def share_of(chunk: Chunk, size: int) -> Share:
    keys, owner = chunk.start + chunk.count, chunk.sequence.blocks
    return Share(count=chunk.count, keys=keys, blocks=tuple(owner[: -(-keys // size)]), owner=owner)


def layout(laid: Laid, slots: int) -> tuple[tuple[Group, ...], tuple[Span, ...]]:
    """Split into sequences that are read as one batch and single ones. `laid` is sorted."""
    spans: list[Span] = []
    singles: list[tuple[int, int]] = []
    row = 0
    for chunk, runs in laid:
        if chunk.count == 1 and len(runs) == 1:
            singles.append(runs[0])
        else:
            spans.append(Span(row=row, count=chunk.count, runs=runs))
        row += chunk.count
    return tuple(_groups(singles, slots)), tuple(spans)


def _groups(singles: Sequence[tuple[int, int]], slots: int) -> Iterable[Group]:
    """Cut decoding sequences (slot, keys), by slot, into batches of equal distances."""
    row = 0
    while row < len(singles):
        end, stride = row + 1, 0
        longest = total = singles[row][1]
        while end < len(singles):
            slot, keys = singles[end]
            step = slot - singles[end - 1][0]
            longest, total = max(longest, keys), total + keys
            if stride not in {0, step} or slot + longest > slots:
                break
            if longest * (end + 1 - row) > RAGGED * total:
                break
            stride, end = step, end + 1
        yield Group(
            row=row,
            slot=singles[row][0],
            stride=stride,
            keys=tuple(keys for _, keys in singles[row:end]),
        )
        row = end
