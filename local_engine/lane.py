"""One model's share of the loop: schedule, compute, draw, settle."""

from collections.abc import Sequence as Many
from itertools import count

from torch import Tensor

from local_engine.beams import Beam, BeamSearch, Candidate, Hypothesis
from local_engine.draw import Drawer, Drawn
from local_engine.jobs import Delta, Job, ended
from local_engine.prompts import PromptRows
from local_engine.runner import Kept, Rows, Runner
from local_engine.scheduler import Chunk, Scheduler
from local_engine.sequence import Sequence, twin
from local_engine.stats import Stats
from local_engine.turns import Turn, take


class Lane:
    """Everything but `stats`, `refuse…` and `longest` is the thread's own."""

    def __init__(self, runner: Runner, scheduler: Scheduler, drawer: Drawer) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._drawer = drawer
        self._jobs: dict[int, Job] = {}
        self._unborn: dict[int, list[Job]] = {}
        self._prompts: dict[int, PromptRows] = {}
        self._searches: dict[int, BeamSearch] = {}
        self._spare_ids = count(-1, -1)
        self._steps = self._computed = self._cached = self._generated = 0
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
        deltas = [Delta(id=id, outcome="expired") for s in step.expired for id in self._leave(s.id)]
        if not step.chunks:
            return deltas
        self._steps += 1
        try:
            rows = self._runner.forward(step.chunks)
            turns = self._turns(rows)
            drawn = take(self._drawer, rows.logits, turns)
            searches = self._offer(rows)
        except RuntimeError as exc:
            return deltas + self._failed(step.chunks, exc)
        for kept in rows.kept:
            if (prompt := self._prompts.get(kept.chunk.sequence.id)) is not None:
                prompt.add(kept.chunk.start, rows.logits[kept.first : kept.first + kept.count])
        deltas += self._settle(step.chunks, rows.logits, turns, drawn)
        for search in searches:
            deltas += self._search_on(search)
        return deltas

    def stats(self) -> Stats:
        """May be called from any thread; the numbers need not be of the same step."""
        blocks = self._scheduler.blocks
        return Stats(
            waiting=self._scheduler.waiting,
            running=self._scheduler.running,
            blocks_total=blocks.total,
            blocks_free=blocks.free,
            steps=self._steps,
            preemptions=self._scheduler.preemptions,
            computed_tokens=self._computed,
            cached_tokens=self._cached,
            num_output_tokens=self._generated,
        )

    def check(self) -> None:
        """Raises CorruptBlocks unless pages and sequences agree; for tests, after a step."""
        self._scheduler.check()

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

    def _settle(
        self, chunks: Many[Chunk], logits: Tensor, turns: list[Turn], drawn: list[list[Drawn]]
    ) -> list[Delta]:
        """Every answer gets its tokens, the chunks count as computed, and siblings begin."""
        deltas = [
            self._give(turn, tokens, logits) for turn, tokens in zip(turns, drawn, strict=True)
        ]
        right = {delta.id: len(delta.drawn) for delta in deltas}
        for chunk in chunks:
            self._computed += chunk.count
            self._scheduler.advance(chunk, max(0, chunk.rows - right.get(chunk.sequence.id, 1)))
            chunk.sequence.drafts.clear()
        for turn in turns:
            if turn.parent is not None:
                self._begin(turn.job, turn.parent)
        for delta in deltas:
            if delta.outcome is not None:
                self.drop(delta.id)
        return deltas

    def _begin(self, job: Job, parent: Job) -> None:
        """A sibling goes on from its parent's prompt."""
        self._unborn.pop(parent.sequence.id, None)
        self._jobs[job.sequence.id] = job
        self._fork(parent.sequence, job.sequence)

    def _give(self, turn: Turn, drawn: list[Drawn], logits: Tensor) -> Delta:
        """Appends the tokens, up to one that ends the answer."""
        job, sequence = turn.job, turn.job.sequence
        first = sequence.generated == 0
        outcome, match, count = None, (), 0
        while outcome is None and count < len(drawn):
            sequence.tokens.append(drawn[count].token)
            outcome, match = ended(job, sequence.tokens)
            count += 1
        self._generated += count
        cached = max((turn.parent or job).sequence.cached, 0)
        if first and turn.parent is None:
            self._cached += cached
            sequence.fresh = False
        prompt = self._prompts.pop(sequence.id, None)
        rows = logits[turn.row : turn.row + count].cpu() if job.generation else None
        return Delta(
            id=sequence.id,
            drawn=tuple(drawn[:count]),
            outcome=outcome,
            match=match,
            cached=cached,
            logits=rows,
            context=prompt.logits if prompt is not None and job.context else None,
            prompt=prompt.drawn if prompt is not None else (),
        )

    def _search_on(self, search: BeamSearch) -> list[Delta]:
        """One token more for every beam of a search, or its answers."""
        job = search.job
        lead = job.sequence
        if search.length == 0:
            self._cached += max(lead.cached, 0)
        candidates = search.choose()
        if search.done:
            ids = self._family(lead.id)
            self.drop(lead.id)
            found = zip(ids, search.hypotheses, strict=False)
            return [self._hypothesis(id, one, max(lead.cached, 0)) for id, one in found]
        self._generated += len(candidates)
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

    def _hypothesis(self, id: int, found: Hypothesis, cached: int) -> Delta:
        self._generated += 1
        return Delta(
            id=id, drawn=found.drawn, outcome=found.finish, match=found.match, cached=cached
        )

    def _end_search(self, job: Job) -> None:
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

    def _leave(self, id: int) -> list[int]:
        """A sequence's answer, and those that wait for its prompt, are over; their ids."""
        if id in self._searches:
            id = self._searches[id].job.sequence.id
        if id not in self._jobs:
            return []
        ids = self._family(id)
        self._unborn.pop(id, None)
        self.drop(id)
        return ids

    def _failed(self, chunks: tuple[Chunk, ...], exc: RuntimeError) -> list[Delta]:
        """The device refused the step (memory, a kernel): its requests end, others go on."""
        return [
            Delta(id=id, outcome="failed", reason=str(exc))
            for chunk in chunks
            for id in self._leave(chunk.sequence.id)
        ]
