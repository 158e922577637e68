"""Which tokens the next forward pass computes: one budget, and one rule for every sequence.

A sequence has tokens, and a part of them is computed; each step hands out how far each may catch
up. Prompts, chunks of prompts, hits of the prefix cache and single decoded tokens are all the
same to it, as in vLLM's V1 scheduler (https://docs.vllm.ai/en/latest/design/arch_overview/).
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

    max_first_token_wait_s: in the queue; makes up for one priority. Who has waited so long, and
        has not begun, may take the place of an answer that has begun and now ranks lower.
    """

    max_step_tokens: int
    max_sequences: int
    max_seq_len: int
    max_first_token_wait_s: float = AGEING_S


class Chunk(Struct, frozen=True, kw_only=True, eq=False):
    """Tokens `start` … `start + count - 1` of one sequence; drafts follow its tokens.

    rows: how many of the last ones a token can be drawn after: 0 inside a prompt, 1 at its end,
          and one more for each draft.
    """

    sequence: Sequence
    start: int
    count: int
    rows: int


class Step(Struct, frozen=True, kw_only=True):
    """chunks: what to compute. expired: finished just now, because their deadline is over."""

    chunks: tuple[Chunk, ...]
    expired: tuple[Sequence, ...]


class Scheduler:
    """Running sequences first, then waiting ones; the worst rank gives way when pages run out."""

    def __init__(self, limits: SchedulerLimits, blocks: BlockPool) -> None:
        self._limits = limits
        self.blocks = blocks
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self.preemptions = 0
        self.reused = 0
        """Pages that new sequences, and forks, did not have to compute."""
        self.budget = limits.max_step_tokens
        """Tokens of a step; whoever finds that it is too much may lower it."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def longest(self) -> int:
        """The most tokens that a sequence can ever have: the context, or all pages of the cache."""
        return min(self._limits.max_seq_len, self.blocks.total * self.blocks.block_size)

    def validate_prompt_length(self, prompt: int) -> None:
        """Raises InvalidRequest for an empty prompt, and one of so many tokens that never fits.

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
        """Raises InvalidRequest for a beam search whose beams could never all be in the cache.

        prompt, new: tokens, `new` of each beam. May be called from any thread.
        """
        size = self.blocks.block_size
        shared = prompt // size if self.blocks.prefix_cache else 0
        total = min(prompt + new, self.longest())
        own = self.blocks.blocks_for(total) - shared + 1
        if shared + width * own > self.blocks.total:
            raise InvalidRequest(
                f"beam_width: {width} beams of {prompt + new} tokens do not fit the cache of "
                f"{self.blocks.total * size} tokens; ask for fewer beams, or fewer max_tokens",
                param="beam_width",
            )
        if width > self._limits.max_sequences:
            raise InvalidRequest(
                f"beam_width: {width} is more than this engine's {self._limits.max_sequences} "
                "answers at once",
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
        """Choose the next step and reserves its pages. An empty step: nothing can run.

        Where all that run are beams waiting for others of their search, which wait for pages, the
        worst rank gives way until one of these gets in.
        """
        expired = tuple(s for s in self._live() if s.deadline <= now)
        for sequence in expired:
            self.finish(sequence)
        chunks: dict[int, Chunk] = {}
        before = self.preemptions
        budget = self._continue_running(chunks, self.budget)
        if self.preemptions == before and self._waiting:
            self._admit_waiting(chunks, budget, now)
        while not chunks and self._waiting and self._running:
            self._preempt(max(self._running, key=lambda s: s.rank), chunks)
            self._admit_waiting(chunks, self.budget, now)
        return Step(chunks=tuple(chunks.values()), expired=expired)

    def advance(self, chunk: Chunk, refused: int = 0) -> None:
        """The chunk was computed: its full pages may be shared from now on.

        refused: of its last tokens, drafts that turned out wrong. The sequence's `tokens` must
        already have those that turned out right.
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
        """Let `child` go on from the pages of the running parent.

        All tokens of the child but its last are the parent's, as far as those are computed.
        Full pages are shared; of a last, partial one the child gets a copy, which the caller
        makes at once: (from, to), or `None` where there is nothing to copy. Without a seat or a
        page the child is queued, and computed like any other sequence.
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
        """Take it out, wherever it is, and frees its pages. Finishing twice is allowed."""
        if sequence.state is State.RUNNING:
            self._running.remove(sequence)
        elif sequence.state is State.WAITING:
            self._waiting.remove(sequence)
        sequence.state = State.FINISHED
        self.blocks.release(sequence.blocks)

    def begin_counting(self) -> None:
        """Preemptions and pages are counted from zero again."""
        self.preemptions = self.reused = self.blocks.taken = 0

    def check(self) -> None:
        """Raises CorruptBlocks unless pages and sequences agree; for tests, after each step.

        Holds beside what the pool says: nobody writes to a page that another holds too.
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
        """Single tokens before chunks of prompts, so that answers flow while prompts are read."""
        for sequence in sorted(self._running, key=lambda s: (s.prefilling, s.rank)):
            if budget == 0:
                break
            if sequence.state is not State.RUNNING or sequence.pending == 0:
                continue
            count = min(sequence.pending, budget)
            if not self._reserve(sequence, count):
                if sequence.drafts:
                    sequence.drafts.clear()
                    count = min(sequence.pending, budget)
                budget += self._make_room(sequence, count, chunks)
            if sequence.state is State.RUNNING:
                budget -= self._grant(sequence, count, chunks)
        return budget

    def _admit_waiting(self, chunks: dict[int, Chunk], budget: int, now: float) -> None:
        """By rank, which waiting improves; size never matters."""
        for sequence in self._waiting:
            waited = int(max(now - sequence.arrival, 0.0) / self._limits.max_first_token_wait_s)
            sequence.level = min(sequence.level, max(1, sequence.priority - waited))
        for sequence in sorted(self._waiting, key=lambda s: s.rank):
            if budget == 0 or not self._admit(sequence, chunks):
                break
            budget = self.budget - sum(c.count for c in chunks.values())
            if not self._reserve(sequence, min(sequence.pending, budget)):
                sequence.drafts.clear()
            budget -= self._grant(sequence, min(sequence.pending, budget), chunks)

    def _admit(self, sequence: Sequence, chunks: dict[int, Chunk]) -> bool:
        """Pages for all of its tokens, and one to spare for each running sequence."""
        blocks = self.blocks
        cached = blocks.prefix_cache and not sequence.fresh
        reusable = (len(sequence.tokens) - 1) // blocks.block_size if cached else 0
        extend_hashes(sequence.hashes, sequence.tokens, reusable, blocks.block_size, sequence.salt)
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
        if sequence.cached < 0:
            sequence.cached = sequence.computed
        self._waiting.remove(sequence)
        self._running.append(sequence)
        sequence.state = State.RUNNING
        return True

    def _choose_victims(self, sequence: Sequence, need: int) -> list[Sequence] | None:
        """Whom to preempt so that it fits: [] for nobody, `None` if that cannot be done.

        Only those of a worse level, and of these: whose priority was worse from the beginning, or
        who have begun to answer, if this one has waited too long to begin. That right is used
        once, so that equals do not preempt each other for ever.
        """
        if not self._running:
            return []
        victims: list[Sequence] = []
        freed = self.blocks.freed_by()
        free, places = self.blocks.free, self._limits.max_sequences - len(self._running)
        late = sequence.cached < 0 and sequence.level < sequence.priority
        weaker = [
            s
            for s in self._running
            if s.level > sequence.level
            and (s.priority > sequence.priority or (late and s.generated > 0))
        ]
        weaker.sort(key=lambda s: s.rank)
        while places < 1 or free < need + len(self._running) - len(victims):
            if not weaker:
                return None
            victims.append(weaker.pop())
            places += 1
            free += freed(victims[-1].blocks)
        return victims

    def _make_room(self, sequence: Sequence, count: int, chunks: dict[int, Chunk]) -> int:
        """Preempt from the worst rank up, itself at the last; returns the budget won back."""
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
        rows = max(0, start + count + 1 - len(sequence.tokens))
        chunks[sequence.id] = Chunk(sequence=sequence, start=start, count=count, rows=rows)
        return count

    def _preempt(self, sequence: Sequence, chunks: dict[int, Chunk]) -> int:
        """Back to the queue without its pages; they stay known, so that little is recomputed."""
        self._running.remove(sequence)
        self.blocks.release(sequence.blocks)
        sequence.state = State.WAITING
        sequence.computed = 0
        sequence.drafts.clear()
        sequence.preempted += 1
        self._waiting.append(sequence)
        self.preemptions += 1
        granted = chunks.pop(sequence.id, None)
        return granted.count if granted is not None else 0
