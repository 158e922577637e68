"""Select the tokens of the next forward pass: one token budget and one rule for every sequence.

A sequence has tokens, a part of which is computed; each step decides how many more each sequence
may compute. Prompts, prompt chunks, prefix-cache hits and single decoded tokens are treated alike,
as in vLLM's V1 scheduler (https://docs.vllm.ai/en/latest/design/arch_overview/).
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from local_engine.scheduling.block_pool import BlockPool, CorruptBlocks, extend_hashes
from local_engine.scheduling.sequence import Sequence, State
from schemas.errors import InvalidRequest
from schemas.prompt_too_long import CONTEXT_LENGTH, too_long_message

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


class Scheduler:
    """Running sequences first, then waiting ones; preempts the worst rank if pages run out."""

    def __init__(self, limits: SchedulerLimits, blocks: BlockPool) -> None:
        self._limits = limits
        self.blocks = blocks
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self.preemptions = 0
        self.reused = 0
        """Pages that new sequences and forks reused."""
        self.budget = limits.max_step_tokens
        """Tokens per step; the OOM backoff lowers it after a failed step."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def longest(self) -> int:
        """Return the most tokens of a sequence: the context, or all pages of the cache."""
        return min(self._limits.max_seq_len, self.blocks.total * self.blocks.block_size)

    def validate_prompt_length(self, prompt: int) -> None:
        """Raises InvalidRequest for an empty prompt, and for one with too many tokens to ever fit.

        May be called from any thread.
        """
        if prompt == 0:
            raise InvalidRequest("the prompt is empty; send at least one token", param="prompt")
        longest = self.longest()
        if prompt >= longest:
            raise InvalidRequest(
                too_long_message(
                    f", prompt and answer together, and the prompt has {prompt}; shorten it to at "
                    f"most {longest - 1}",
                    longest,
                ),
                param="prompt",
                code=CONTEXT_LENGTH,
            )

    def validate_beams(self, prompt: int, width: int, new: int) -> None:
        """Raises InvalidRequest for a beam search whose beams can never fit the cache together.

        prompt, new: tokens, `new` of each beam. May be called from any thread.
        """
        size = self.blocks.block_size
        shared = prompt // size if self.blocks.prefix_cache else 0
        total = min(prompt + new, self.longest())
        own = self.blocks.blocks_for(total) - shared + 1
        if shared + width * own > self.blocks.total:
            raise InvalidRequest(
                f"beam_width: {width} beams of {prompt + new} tokens do not fit the cache of "
                f"{self.blocks.total * size} tokens; lower beam_width or max_tokens",
                param="beam_width",
            )
        if width > self._limits.max_sequences:
            raise InvalidRequest(
                f"beam_width: {width} exceeds this engine's limit of {self._limits.max_sequences} "
                "concurrent answers",
                param="beam_width",
            )

    def add(self, sequence: Sequence) -> None:
        """Queue the sequence and bound it by the cache.

        Raises InvalidRequest as `validate_prompt_length` does.
        """
        self.validate_prompt_length(len(sequence.tokens))
        sequence.max_total = min(sequence.max_total, self.longest())
        self._waiting.append(sequence)

    def schedule(self, now: float) -> Step:
        """Choose the next step and reserve its pages. The step is empty if nothing can run.

        If all running sequences are beams that wait for other beams of their search, and those wait
        for pages, the worst rank is preempted until one of them is admitted.
        """
        expired = tuple(s for s in self._live() if s.deadline <= now)
        for sequence in expired:
            self.finish(sequence)
        chunks: dict[int, Chunk] = {}
        before = self.preemptions
        budget = self._continue_running(chunks, self.budget)
        # After a preemption there are no pages for new sequences: admitting would preempt again.
        if self.preemptions == before and self._waiting:
            self._admit_waiting(chunks, budget, now)
        while not chunks and self._waiting and self._running:
            self._preempt(max(self._running, key=lambda s: s.rank), chunks)
            self._admit_waiting(chunks, self.budget, now)
        return Step(chunks=tuple(chunks.values()), expired=expired)

    def advance(self, chunk: Chunk, refused: int = 0) -> None:
        """Record that a chunk was computed; its full pages may be shared from now on.

        refused: number of its last tokens that were rejected drafts. The sequence's `tokens` must
        already contain the accepted ones.
        """
        sequence, size = chunk.sequence, self.blocks.block_size
        first = sequence.computed // size
        sequence.computed = chunk.start + chunk.count - refused
        if not self.blocks.prefix_cache:
            return
        full = sequence.computed // size
        extend_hashes(sequence.hashes, sequence.tokens, full, size, sequence.salt)
        for index in range(first, full):
            self.blocks.publish(sequence.blocks[index], sequence.hashes[index])

    def fork(self, parent: Sequence, child: Sequence) -> tuple[int, int] | None:
        """Start `child` from the pages of the running parent.

        All tokens of the child except the last are the parent's, as far as those are computed.
        Full pages are shared. For a partial last page, the caller must copy it at once: returns
        (from, to), or `None` if there is nothing to copy. If no place or page is free, the child is
        queued and computed like any other sequence.
        """
        blocks = self.blocks
        computed = min(parent.computed, len(child.tokens) - 1)
        full, partial = divmod(computed, blocks.block_size)
        no_place = len(self._running) >= self._limits.max_sequences
        if no_place or parent.state is not State.RUNNING or blocks.free < len(self._running) + 1:
            self._waiting.append(child)
            return None
        child.blocks.extend(blocks.hold(parent.blocks[:full]))
        self.reused += full
        if partial:
            blocks.grow(child.blocks, 1)
        child.computed = computed
        child.state = State.RUNNING
        self._running.append(child)
        return (parent.blocks[full], child.blocks[full]) if partial else None

    def finish(self, sequence: Sequence) -> None:
        """Remove the sequence and free its pages. May be called twice."""
        if sequence.state is State.RUNNING:
            self._running.remove(sequence)
        elif sequence.state is State.WAITING:
            self._waiting.remove(sequence)
        sequence.state = State.FINISHED
        self.blocks.release(sequence.blocks)

    def begin_counting(self) -> None:
        """Reset the counters of preemptions and pages."""
        self.preemptions = self.reused = self.blocks.taken = 0

    def check(self) -> None:
        """Raises CorruptBlocks unless pages and sequences agree; for tests, after each step.

        In addition to the pool's invariants: no sequence writes to a page that another one holds.
        """
        self.blocks.check(s.blocks for s in self._live())
        holders = Counter(block for s in self._live() for block in s.blocks)
        for sequence in self._live():
            written = sequence.blocks[sequence.computed // self.blocks.block_size :]
            if any(holders[block] > 1 for block in written):
                raise CorruptBlocks(f"sequence {sequence.id} would write to a shared page")

    def _live(self) -> Iterator[Sequence]:
        yield from self._running
        yield from self._waiting

    def _continue_running(self, chunks: dict[int, Chunk], budget: int) -> int:
        """Schedule single tokens before prompt chunks, so that answers keep streaming."""
        for sequence in sorted(self._running, key=lambda s: (s.prefilling, s.rank)):
            if budget == 0:
                break
            # A sequence before this one may have preempted it in this loop.
            if sequence.state is not State.RUNNING or sequence.pending == 0:
                continue
            count = min(sequence.pending, budget)
            if not self._reserve(sequence, count):
                # Drafts are optional: drop them before preempting others for their pages.
                if sequence.drafts:
                    sequence.drafts.clear()
                    count = min(sequence.pending, budget)
                budget += self._make_room(sequence, count, chunks)
            if sequence.state is State.RUNNING:
                budget -= self._grant(sequence, count, chunks)
        return budget

    def _admit_waiting(self, chunks: dict[int, Chunk], budget: int, now: float) -> None:
        """Admit by rank, which improves while waiting; the size does not matter."""
        for sequence in self._waiting:
            waited = int(max(now - sequence.arrival, 0.0) / self._limits.max_first_token_wait_s)
            sequence.level = min(sequence.level, max(1, sequence.priority - waited))
        for sequence in sorted(self._waiting, key=lambda s: s.rank):
            # No overtaking: if small sequences passed one that does not fit, it would starve.
            if budget == 0 or not self._admit(sequence, chunks):
                break
            # Recount, because admitting may preempt sequences with chunks in this step.
            budget = self.budget - sum(c.count for c in chunks.values())
            if not self._reserve(sequence, min(sequence.pending, budget)):
                sequence.drafts.clear()
            budget -= self._grant(sequence, min(sequence.pending, budget), chunks)

    def _admit(self, sequence: Sequence, chunks: dict[int, Chunk]) -> bool:
        """Admit a sequence if pages for all its tokens and one per running sequence are free."""
        blocks = self.blocks
        cached = blocks.prefix_cache and not sequence.fresh
        # The last token is always computed: its logits are needed to draw the next one.
        reusable = (len(sequence.tokens) - 1) // blocks.block_size if cached else 0
        extend_hashes(sequence.hashes, sequence.tokens, reusable, blocks.block_size, sequence.salt)
        # Hold shared pages first, so that they neither count as free nor get evicted below.
        sequence.blocks.extend(blocks.share(sequence.hashes[:reusable]))
        hits = len(sequence.blocks)
        need = blocks.blocks_for(len(sequence.tokens)) - hits
        victims = self._choose_victims(sequence, need)
        if victims is None:
            blocks.release(sequence.blocks)
            return False
        for victim in victims:
            self._preempt(victim, chunks)
        if not blocks.grow(sequence.blocks, need):
            blocks.release(sequence.blocks)
            return False
        self.reused += hits
        sequence.computed = hits * blocks.block_size
        # Reported once: after a preemption, hits are mostly the sequence's own pages.
        if sequence.cached < 0:
            sequence.cached = sequence.computed
        self._waiting.remove(sequence)
        self._running.append(sequence)
        sequence.state = State.RUNNING
        return True

    def _choose_victims(self, sequence: Sequence, need: int) -> list[Sequence] | None:
        """Return the sequences to preempt so that this one fits, or `None` if it cannot fit.

        Victims have a worse level. Their priority was worse from the start, or they have started
        to answer while this one waited too long to start. A sequence uses this right only once, so
        that equals do not preempt each other for ever.
        """
        if not self._running:
            return []
        victims: list[Sequence] = []
        freed = self.blocks.freed_by()
        free, places = self.blocks.free, self._limits.max_sequences - len(self._running)
        # `cached` is negative until the first start.
        late = sequence.cached < 0 and sequence.level < sequence.priority
        weaker = [
            s
            for s in self._running
            if s.level > sequence.level
            and (s.priority > sequence.priority or (late and s.generated > 0))
        ]
        weaker.sort(key=lambda s: s.rank)
        # One free page per running sequence, so that the next decoding step need not preempt.
        while places < 1 or free < need + len(self._running) - len(victims):
            if not weaker:
                return None
            victims.append(weaker.pop())
            places += 1
            free += freed(victims[-1].blocks)
        return victims

    def _make_room(self, sequence: Sequence, count: int, chunks: dict[int, Chunk]) -> int:
        """Preempt from the worst rank up, at last the sequence itself; return the freed budget."""
        refund = 0
        while not self._reserve(sequence, count):
            victim = max(self._running, key=lambda s: s.rank)
            refund += self._preempt(victim, chunks)
            if victim is sequence:
                break
        return refund

    def _reserve(self, sequence: Sequence, count: int) -> bool:
        need = self.blocks.blocks_for(sequence.computed + count) - len(sequence.blocks)
        return need <= 0 or self.blocks.grow(sequence.blocks, need)

    def _grant(self, sequence: Sequence, count: int, chunks: dict[int, Chunk]) -> int:
        start = sequence.computed
        # Rows only if the chunk reaches the last token: one for it and one per draft after it.
        rows = max(0, start + count + 1 - len(sequence.tokens))
        chunks[sequence.id] = Chunk(sequence=sequence, start=start, count=count, rows=rows)
        return count

    def _preempt(self, sequence: Sequence, chunks: dict[int, Chunk]) -> int:
        """Requeue a sequence without its pages; they stay cached, so that little is recomputed."""
        self._running.remove(sequence)
        self.blocks.release(sequence.blocks)
        sequence.blocks = []
        sequence.state = State.WAITING
        sequence.computed = 0
        sequence.drafts.clear()
        sequence.preempted += 1
        self._waiting.append(sequence)
        self.preemptions += 1
        granted = chunks.pop(sequence.id, None)
        return granted.count if granted is not None else 0
