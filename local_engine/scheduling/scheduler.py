"""Select the tokens of the next forward pass: one token budget and one rule for every sequence.

A sequence has tokens, a part of which is computed; each step decides how many more each sequence
may compute. Prompts, prompt chunks, prefix-cache hits and single decoded tokens are treated alike,
as in vLLM's V1 scheduler (https://docs.vllm.ai/en/latest/design/arch_overview/).

A step, as `schedule` chooses it:

1. Sequences whose deadline has passed end.
2. Running sequences continue, within the step's `budget` of tokens: first those that decode, then
   those that still read their prompts, each by rank (level, then arrival).
3. Each gets pages for its next tokens. If none are free, it first drops its drafts; then running
   sequences are preempted, the worst rank first. A preempted sequence waits again; its pages stay
   in the prefix cache until their space is needed.
4. If nothing was preempted, waiting sequences are admitted with the rest of the budget
   (`admission.py`). One is admitted only with pages for all its tokens, and a free page more for
   each running sequence, so that the next step need not preempt. For that, it may preempt
   sequences of a worse level (`_choose_victims`).
5. If nothing can run although sequences wait, all running ones are beams that wait for others: the
   worst rank is preempted until one of those is admitted.

Where several keys compete, they share steps 2 to 4 (`_share_step`): decoding leaves an eighth of
the budget to prompts, prompts get equal parts by team and key (`token_shares.py`), waiting keys are
admitted in turn (`waiting_lines.py`), and a key that holds more gives way (`giving_way.py`).

The lane (`model_lane.py`) computes the chunks of the step and calls `advance` for each: its full
pages can be shared from then on. `finish` ends a sequence, and frees its place and pages.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from strowger_gateway.local_engine.scheduling.admission import Admission
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool, extend_hashes
from strowger_gateway.local_engine.scheduling.giving_way import GivingWay
from strowger_gateway.local_engine.scheduling.residents import Residents
from strowger_gateway.local_engine.scheduling.sequence import Sequence, State
from strowger_gateway.local_engine.scheduling.steps import (
    Chunk,
    SchedulerLimits,
    Step,
    grant,
    granted,
)
from strowger_gateway.local_engine.scheduling.token_shares import Demand, by_turns, split_tokens
from strowger_gateway.local_engine.scheduling.waiting_lines import Line
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.holdings import RESERVED, Holder
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH, too_long_message

ADMITTED_KEYS = 64
"""Keys from which a step admits at most, where several compete for its tokens."""


class Scheduler:
    """Running sequences first, then waiting ones; both in turn by key where several compete.

    If pages run out, the worst rank of the key that holds the most is preempted.
    """

    def __init__(self, limits: SchedulerLimits, blocks: BlockPool) -> None:
        self._limits = limits
        self.blocks = blocks
        self._residents = Residents(limits, blocks)
        self._admission = Admission(self._residents)
        self.budget = limits.max_step_tokens
        """Tokens per step; the OOM backoff lowers it after a failed step."""

    @property
    def waiting(self) -> int:
        return len(self._residents.waiting) + len(self._residents.parked)

    @property
    def running(self) -> int:
        return len(self._residents.running)

    @property
    def preemptions(self) -> int:
        return self._residents.preemptions

    @property
    def reused(self) -> int:
        """Pages that new sequences and forks reused."""
        return self._residents.reused

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
        self._residents.queue(sequence)

    def schedule(self, now: float) -> Step:
        """Choose the next step and reserve its pages. The step is empty if nothing can run.

        If all running sequences are beams that wait for other beams of their search, and those wait
        for pages, the worst rank is preempted until one of them is admitted.
        """
        residents = self._residents
        expired = tuple(s for s in residents.live() if s.deadline <= now)
        for sequence in expired:
            residents.finish(sequence)
        residents.shares.refresh(now)
        chunks: dict[int, Chunk] = {}
        if residents.shares.contended:
            self._share_step(chunks, now)
        else:
            before = residents.preemptions
            order = sorted(residents.running, key=lambda s: (s.prefilling, s.rank))
            budget = self._continue(order, chunks, self.budget)
            # After a preemption there are no pages for new ones: admitting would preempt again.
            if residents.preemptions == before and residents.waiting:
                self._admit(chunks, budget, now)
        while not chunks and residents.waiting and residents.running:
            residents.preempt(max(residents.running, key=lambda s: s.rank), chunks)
            self._admit(chunks, self.budget, now)
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
        blocks, residents = self.blocks, self._residents
        computed = min(parent.computed, len(child.tokens) - 1)
        full, partial = divmod(computed, blocks.block_size)
        place = residents.free_places > 0 and residents.shares.places.within_bound(child.holder, 1)
        residents.queue(child)
        if not place or parent.state is not State.RUNNING or blocks.free < self.running + 1:
            return None
        residents.waiting.remove(child)
        child.blocks.extend(blocks.hold(parent.blocks[:full]))
        residents.reused += full
        if partial:
            residents.grow(child, 1)
        child.computed = computed
        residents.run(child)
        return (parent.blocks[full], child.blocks[full]) if partial else None

    def resume(self, sequence: Sequence) -> None:
        """Compute a beam's next token, which was appended after its logits were known."""
        self._residents.resume(sequence)

    def finish(self, sequence: Sequence) -> None:
        """Remove the sequence and free its pages. May be called twice."""
        self._residents.finish(sequence)

    def begin_counting(self) -> None:
        """Reset the counters of preemptions and pages."""
        self._residents.preemptions = self._residents.reused = self.blocks.taken = 0

    def check(self) -> None:
        """Raises CorruptBlocks unless pages and sequences agree; for tests, after each step."""
        self._residents.check()

    def _share_step(self, chunks: dict[int, Chunk], now: float) -> None:
        """Schedule sequences of several keys, which share the step's tokens.

        As with one key, single tokens come before prompts, so that answers keep streaming.
        """
        residents = self._residents
        order = sorted(residents.running, key=lambda s: s.rank)
        reading = [s for s in order if s.prefilling]
        decoding = [s for s in order if not s.prefilling]
        budget, before = self.budget, residents.preemptions
        kept = budget // RESERVED if reading or residents.waiting else 0
        if sum(s.pending for s in decoding) > budget - kept:
            decoding = by_turns(decoding)
        budget = self._continue(decoding, chunks, budget - kept) + kept
        turns = self._admission.turns(now) if residents.waiting else None
        queued = [] if turns is None else turns.soonest(ADMITTED_KEYS)
        quotas = split_tokens(budget, self._demands(reading, chunks, queued, budget))
        budget = self._continue(reading, chunks, budget, quotas)
        if turns is not None:
            pressed = residents.preemptions > before
            budget = self._admission.admit(
                turns, chunks, budget, now, quotas, most=self.budget, pressed=pressed
            )
        if budget > 0 and (reading or kept):
            self._extend(chunks, budget)

    def _admit(self, chunks: dict[int, Chunk], budget: int, now: float) -> None:
        """Admit what waits, without regard to the tokens that other keys could use."""
        turns = self._admission.turns(now)
        self._admission.admit(turns, chunks, budget, now, most=self.budget)

    def _demands(
        self,
        reading: Iterable[Sequence],
        chunks: dict[int, Chunk],
        queued: Iterable[Line],
        most: int,
    ) -> Iterator[Demand]:
        """Yield the prompt tokens of each key that are not scheduled yet.

        queued: the lines that count, up to `most` tokens per key.
        """
        tokens: Counter[Holder] = Counter()
        best: dict[Holder, int] = {}
        for one in reading:
            tokens[one.holder] += one.pending - granted(one, chunks)
            best[one.holder] = min(best.get(one.holder, one.priority), one.priority)
        for line in queued:
            for one in line:
                best[line.holder] = min(best.get(line.holder, one.priority), one.priority)
                tokens[line.holder] += one.pending
                if tokens[line.holder] >= most:
                    break
        for holder, count in tokens.items():
            yield Demand(holder=holder, tokens=count, priority=best[holder])

    def _continue(
        self,
        sequences: Iterable[Sequence],
        chunks: dict[int, Chunk],
        budget: int,
        quotas: dict[str, int] | None = None,
    ) -> int:
        """Schedule running sequences in this order; return the budget that is left.

        quotas: the tokens that each key may use.
        """
        for sequence in sequences:
            if budget == 0:
                break
            # A sequence before this one may have preempted it in this loop.
            if sequence.state is not State.RUNNING or sequence.pending == 0:
                continue
            most = budget if quotas is None else min(budget, quotas[sequence.holder.key])
            if most == 0:
                continue
            count = min(sequence.pending, most)
            if not self._residents.reserve(sequence, count):
                # Drafts are optional: drop them before preempting others for their pages.
                if sequence.drafts:
                    sequence.drafts.clear()
                    count = min(sequence.pending, most)
                budget += self._make_room(sequence, count, chunks)
            if sequence.state is State.RUNNING:
                budget -= grant(sequence, count, chunks)
                if quotas is not None:
                    quotas[sequence.holder.key] -= count
        return budget

    def _extend(self, chunks: dict[int, Chunk], budget: int) -> None:
        """Give tokens that no turn has used to the running sequences that can use them."""
        partial = [s for s in self._residents.running if s.pending > granted(s, chunks)]
        quotas = split_tokens(budget, self._demands(partial, chunks, (), 0))
        for sequence in sorted(partial, key=lambda s: s.rank):
            count = granted(sequence, chunks)
            more = min(sequence.pending - count, quotas[sequence.holder.key])
            if more > 0 and self._residents.reserve(sequence, count + more):
                grant(sequence, count + more, chunks)
                quotas[sequence.holder.key] -= more

    def _make_room(self, sequence: Sequence, count: int, chunks: dict[int, Chunk]) -> int:
        """Preempt until its next tokens have pages, at last the sequence itself.

        Another key's if that holds more, otherwise the worst rank of its own. Return the budget
        that this frees.
        """
        refund, residents = 0, self._residents
        while not residents.reserve(sequence, count):
            victim = self._of_larger_key(sequence, count) or residents.worst_of(sequence.holder)
            refund += residents.preempt(victim, chunks)
            if victim is sequence:
                break
        return refund

    def _of_larger_key(self, sequence: Sequence, count: int) -> Sequence | None:
        """Return a sequence that gives way to the next tokens of this one."""
        residents = self._residents
        if not residents.shares.contended:
            return None
        need = self.blocks.blocks_for(sequence.computed + count) - len(sequence.blocks)
        freed = self.blocks.freed_pages()
        others = GivingWay(residents.shares, freed, sequence, places=0, pages=need)
        others.offer(residents.running, lambda _: True)
        found = others.take()
        return None if found is None else found[0]
