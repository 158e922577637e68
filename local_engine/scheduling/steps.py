"""What a step computes: its chunks, and the limits within which they are chosen."""

from msgspec import Struct

from strowger_gateway.local_engine.scheduling.sequence import Sequence

AGEING_S = 2.5


class SchedulerLimits(Struct, frozen=True, kw_only=True):
    """max_step_tokens, max_sequences: at least 1. max_seq_len: prompt and answer together.

    max_first_token_wait_s: seconds in the queue that count as one priority level. A sequence that
        waited this long without starting may preempt one that has started and now ranks lower.
    """

    max_step_tokens: int
    max_sequences: int
    max_seq_len: int
    max_first_token_wait_s: float = AGEING_S


class Chunk(Struct, frozen=True, kw_only=True, eq=False):
    """Tokens `start` … `start + count - 1` of one sequence; drafts follow its tokens.

    rows: after how many of its last tokens a token is drawn: 0 inside a prompt, 1 at its end,
          and one more for each draft.
    """

    sequence: Sequence
    start: int
    count: int
    rows: int


class Step(Struct, frozen=True, kw_only=True):
    """chunks: what to compute. expired: sequences just finished because their deadline passed."""

    chunks: tuple[Chunk, ...]
    expired: tuple[Sequence, ...]


def grant(sequence: Sequence, count: int, chunks: dict[int, Chunk]) -> int:
    """Schedule the next `count` tokens of a sequence instead of what was; return the count."""
    start = sequence.computed
    # Rows only if the chunk reaches the last token: one for it and one per draft after it.
    rows = max(0, start + count + 1 - len(sequence.tokens))
    chunks[sequence.id] = Chunk(sequence=sequence, start=start, count=count, rows=rows)
    return count


def granted(sequence: Sequence, chunks: dict[int, Chunk]) -> int:
    """Return how many tokens of a sequence are scheduled."""
    chunk = chunks.get(sequence.id)
    return 0 if chunk is None else chunk.count
