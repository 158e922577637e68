"""One model's share of the loop: schedule, compute, draw, settle."""

from collections.abc import Sequence as Many
from itertools import count

from msgspec import Struct
from torch import Tensor

from local_engine.beams import Beam, BeamSearch, Candidate, Hypothesis
from local_engine.draw import Drawer, Drawn
from local_engine.jobs import Delta, Job, Outcome, ended
from local_engine.meter import Meter
from local_engine.prompts import PromptRows
from local_engine.relief import Computed, Relief
from local_engine.runner import Kept, Rows, Runner
from local_engine.scheduler import Chunk, Scheduler
from local_engine.sequence import Sequence, twin
from local_engine.stats import NOWHERE, Footprint, Stats
from local_engine.turns import Turn, take


class Rolled(Struct, frozen=True, kw_only=True, eq=False):
    """What a forward pass and the drawing brought: tokens by turn, and searches to go on."""

    rows: Rows
    turns: list[Turn]
    drawn: list[list[Drawn]]
    searches: list[BeamSearch]


class Lane:
    """Everything but `stats`, `refuse…` and `longest` is the thread's own."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        drawer: Drawer,
        footprint: Footprint = NOWHERE,
    ) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._drawer = drawer
        self._footprint = footprint
        self._relief = Relief(scheduler.budget)
        self.meter = Meter()
        self._jobs: dict[int, Job] = {}
        self._unborn: dict[int, list[Job]] = {}
        self._prompts: dict[int, PromptRows] = {}
        self._searches: dict[int, BeamSearch] = {}
        self._spare_ids = count(-1, -1)
        self.refuse = scheduler.refuse
        self.refuse_beams = scheduler.refuse_beams
        self.longest = scheduler.longest

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def add(self, job: Job) -> None:
        """Its siblings begin when its prompt is computed."""
        id = job.sequence.id
        self._scheduler.add(job.sequence)
        self._jobs[id] = job
        for one in (job, *job.siblings):
            self.meter.arrived(one.sequence)
        if job.siblings:
            self._unborn[id] = list(job.siblings)
        if job.context or job.prompt_logprobs:
            self._prompts[id] = PromptRows(job)
        if job.beams is not None:
            drawer = self._drawer
            self._searches[id] = BeamSearch(job, vocabulary=drawer.vocabulary, device=drawer.device)

    def drop(self, id: int) -> None:
        """Frees a sequence at once; one that has ended already is none of our business.

        Siblings that were waiting for its prompt go on without it.
        """
        self.meter.ended(id, "cancelled")
        job = self._jobs.pop(id, None)
        if job is None:
            for waiting in self._unborn.values():
                waiting[:] = [one for one in waiting if one.sequence.id != id]
            return
        self._prompts.pop(id, None)
        self._scheduler.finish(job.sequence)
        heirs = self._unborn.pop(id, [])
        if job.beams is not None:
            self._end_search(job)
            return
        if heirs:
            self.add(heirs[0])
            self._unborn[heirs[0].sequence.id] = heirs[1:]

    def drop_all(self) -> list[int]:
        ids = [one for id in list(self._jobs) for one in self._family(id)]
        for id in reversed(ids):
            self.drop(id)
        return ids

    def step(self, now: float) -> list[Delta]:
        """Schedule, compute, draw, settle."""
        step = self._scheduler.schedule(now)
        deltas = [
            Delta(id=id, outcome="expired")
            for sequence in step.expired
            for id in self._leave(sequence.id, "expired")
        ]
        if not step.chunks:
            return deltas
        began = self.meter.now()
        self.meter.began(chunk.sequence for chunk in step.chunks)
        for part in self._relief.parts(step.chunks, self._roll):
            if isinstance(part, Computed):
                deltas += self._settle(part.chunks, part.result)
            else:
                deltas += self._failed(part.chunk, part.reason)
        self._scheduler.budget = self._relief.budget
        self.meter.stepped(sum(chunk.count for chunk in step.chunks), began)
        return deltas

    def stats(self) -> Stats:
        """May be called from any thread; the numbers need not be of the same step."""
        return self.meter.stats(self._scheduler, self._footprint)

    def check(self) -> None:
        """Raises CorruptBlocks unless pages and sequences agree; for tests, after a step."""
        self._scheduler.check()

    def _roll(self, chunks: tuple[Chunk, ...]) -> Rolled:
        """Compute and draw. Raises RuntimeError for what the device refuses."""
        rows = self._runner.forward(chunks)
        turns = self._turns(rows)
        drawn = take(self._drawer, rows.logits, turns)
        return Rolled(rows=rows, turns=turns, drawn=drawn, searches=self._offer(rows))

    def _turns(self, rows: Rows) -> list[Turn]:
        """Who draws from which rows; siblings that begin now draw from their prompt's last."""
        turns: list[Turn] = []
        for kept in rows.kept:
            if kept.chunk.rows and kept.chunk.sequence.id not in self._searches:
                turns += self._turns_of(kept)
        return turns

    def _offer(self, rows: Rows) -> list[BeamSearch]:
        """Beams wait for each other; returns the searches that have all of theirs."""
        touched: dict[int, BeamSearch] = {}
        for kept in rows.kept:
            search = self._searches.get(kept.chunk.sequence.id)
            if search is not None and kept.chunk.rows:
                search.offer(kept.chunk.sequence.id, rows.logits[kept.draw])
                touched[id(search)] = search
        return [search for search in touched.values() if search.ready]

    def _turns_of(self, kept: Kept) -> list[Turn]:
        sequence = kept.chunk.sequence
        job = self._jobs[sequence.id]
        drafts = tuple(sequence.drafts[: kept.chunk.rows - 1])
        siblings = self._unborn.get(sequence.id, ())
        return [
            Turn(job=job, row=kept.draw, drafts=drafts),
            *(Turn(job=sibling, row=kept.draw, parent=job) for sibling in siblings),
        ]

    def _settle(self, chunks: Many[Chunk], rolled: Rolled) -> list[Delta]:
        """Every answer gets its tokens, the chunks count as computed, and siblings begin."""
        logits, now = rolled.rows.logits, self.meter.now()
        for kept in rolled.rows.kept:
            if (prompt := self._prompts.get(kept.chunk.sequence.id)) is not None:
                prompt.add(kept.chunk.start, logits[kept.first : kept.first + kept.count])
        deltas = [
            self._give(turn, tokens, logits, now)
            for turn, tokens in zip(rolled.turns, rolled.drawn, strict=True)
        ]
        right = {delta.id: len(delta.drawn) for delta in deltas}
        for chunk in chunks:
            self._scheduler.advance(chunk, max(0, chunk.rows - right.get(chunk.sequence.id, 1)))
            chunk.sequence.drafts.clear()
        for turn in rolled.turns:
            if turn.parent is not None:
                self._begin(turn.job, turn.parent)
        for delta in deltas:
            if delta.outcome is not None:
                self.meter.ended(delta.id, delta.outcome)
                self.drop(delta.id)
        for search in rolled.searches:
            deltas += self._search_on(search, now)
        return deltas

    def _begin(self, job: Job, parent: Job) -> None:
        """A sibling goes on from its parent's prompt."""
        self._unborn.pop(parent.sequence.id, None)
        self._jobs[job.sequence.id] = job
        self._fork(parent.sequence, job.sequence)

    def _give(self, turn: Turn, drawn: list[Drawn], logits: Tensor, now: float) -> Delta:
        """Appends the tokens, up to one that ends the answer."""
        job, sequence = turn.job, turn.job.sequence
        first = sequence.generated == 0
        outcome: Outcome | None = None
        match: tuple[int, ...] = ()
        count = 0
        while outcome is None and count < len(drawn):
            sequence.tokens.append(drawn[count].token)
            outcome, match = ended(job, sequence.tokens)
            count += 1
        self.meter.drew(sequence, count, now)
        self.meter.drafted(len(turn.drafts), count - 1 if turn.drafts else 0)
        reason = "" if job.grammar is None else job.grammar.failure
        if reason:
            outcome = "failed"
        elif outcome is None and job.grammar is not None and job.grammar.over:
            outcome = "stop_sequence"
        cached = max((turn.parent or job).sequence.cached, 0)
        if first and turn.parent is None:
            sequence.fresh = False
        prompt = self._prompts.pop(sequence.id, None)
        rows = logits[turn.row : turn.row + count].cpu() if job.generation else None
        return Delta(
            id=sequence.id,
            drawn=tuple(drawn[:count]),
            outcome=outcome,
            match=match,
            reason=reason,
            cached=cached,
            logits=rows,
            context=prompt.logits if prompt is not None and job.context else None,
            prompt=prompt.drawn if prompt is not None else (),
        )

    def _search_on(self, search: BeamSearch, now: float) -> list[Delta]:
        """One token more for every beam of a search, or its answers."""
        job = search.job
        lead = job.sequence
        candidates = search.choose()
        self.meter.drew(lead, max(len(candidates), 1), now)
        if search.done:
            found = list(zip(self._family(lead.id), search.hypotheses, strict=False))
            for id, one in found:
                self.meter.ended(id, one.finish)
            self.drop(lead.id)
            return [_hypothesis(id, one, max(lead.cached, 0)) for id, one in found]
        kept: dict[int, Sequence] = {}
        beams: list[Beam] = []
        for candidate in candidates:
            parent = candidate.parent.sequence
            sequence = parent if parent.id not in kept else twin(parent, next(self._spare_ids))
            kept[sequence.id] = sequence
            beams.append(search.beam(candidate, sequence))
        self._regroup(search, candidates, beams)
        return []

    def _regroup(self, search: BeamSearch, candidates: list[Candidate], beams: list[Beam]) -> None:
        """Forks go first, as long as their parents are as they were; then all get their token."""
        for candidate, beam in zip(candidates, beams, strict=True):
            parent = candidate.parent.sequence
            if beam.sequence is not parent:
                beam.sequence.tokens.append(candidate.token)
                self._fork(parent, beam.sequence)
        going = {beam.sequence.id for beam in beams}
        for beam in search.live:
            if beam.sequence.id not in going:
                del self._searches[beam.sequence.id]
                self._scheduler.finish(beam.sequence)
        for candidate, beam in zip(candidates, beams, strict=True):
            if beam.sequence is candidate.parent.sequence:
                beam.sequence.tokens.append(candidate.token)
            self._searches[beam.sequence.id] = search
        search.live = beams

    def _end_search(self, job: Job) -> None:
        for one in job.siblings:
            self.meter.ended(one.sequence.id, "cancelled")
        ours = [id for id, search in self._searches.items() if search.job is job]
        for id in ours:
            search = self._searches.pop(id)
            for beam in search.live:
                self._scheduler.finish(beam.sequence)

    def _fork(self, parent: Sequence, child: Sequence) -> None:
        copy = self._scheduler.fork(parent, child)
        if copy is not None:
            self._runner.copy(*copy)

    def _family(self, id: int) -> list[int]:
        """An answer, and those that wait for its prompt."""
        return [id, *(one.sequence.id for one in self._unborn.get(id, ()))]

    def _leave(self, id: int, outcome: Outcome) -> list[int]:
        """A sequence's answer, and those that wait for its prompt, are over; their ids."""
        if id in self._searches:
            id = self._searches[id].job.sequence.id
        if id not in self._jobs:
            return []
        ids = self._family(id)
        self._unborn.pop(id, None)
        for one in ids:
            self.meter.ended(one, outcome)
        self.drop(id)
        return ids

    def _failed(self, chunk: Chunk, reason: str) -> list[Delta]:
        """The device refused it (memory, a kernel): its answer ends, others go on."""
        text = f"the device cannot compute this answer, not even alone: {reason}"
        return [
            Delta(id=id, outcome="failed", reason=text)
            for id in self._leave(chunk.sequence.id, "failed")
        ]


def _hypothesis(id: int, found: Hypothesis, cached: int) -> Delta:
    return Delta(id=id, drawn=found.drawn, outcome=found.finish, match=found.match, cached=cached)
