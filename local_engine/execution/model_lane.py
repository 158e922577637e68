"""One model in the engine loop: schedule, compute, sample, apply."""

from collections.abc import Sequence as Many

from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.execution.beam_groups import BeamGroups, answers
from strowger_gateway.local_engine.execution.beam_search import BeamSearch
from strowger_gateway.local_engine.execution.draft_proposer import DraftProposer
from strowger_gateway.local_engine.execution.jobs import NO_NUMBERS, Delta, Job, Outcome, ended
from strowger_gateway.local_engine.execution.model_runner import ChunkRows, Runner, StepRows
from strowger_gateway.local_engine.execution.oom_backoff import Computed, OomBackoff
from strowger_gateway.local_engine.execution.prompt_logits import PromptRows
from strowger_gateway.local_engine.execution.row_drawing import DrawRequest, draw_tokens
from strowger_gateway.local_engine.execution.step_sampler import SampledToken, StepSampler
from strowger_gateway.local_engine.protocol.stats import NO_FOOTPRINT, Footprint, Stats
from strowger_gateway.local_engine.sampling.sampler import NO_TOKEN
from strowger_gateway.local_engine.scheduling.request_metrics import RequestMetrics
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import Sequence
from strowger_gateway.local_engine.scheduling.steps import Chunk


class StepResult(Struct, frozen=True, kw_only=True, eq=False):
    """The result of a forward pass and sampling: tokens by draw, and searches to advance."""

    rows: StepRows
    draws: list[DrawRequest]
    drawn: list[list[SampledToken]]
    searches: list[BeamSearch]


class ModelLane:
    """One model's lane. Other threads may call only `stats`, `validate_…` and `longest`."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        sampler: StepSampler,
        footprint: Footprint = NO_FOOTPRINT,
        *,
        drafts: int = 0,
    ) -> None:
        """drafts: most draft tokens per answer and step; 0: none."""
        self._runner = runner
        self._scheduler = scheduler
        self._sampler = sampler
        self._footprint = footprint
        self._oom_backoff = OomBackoff(scheduler.budget)
        self.metrics = RequestMetrics()
        self._jobs: dict[int, Job] = {}
        self._waiting_siblings: dict[int, list[Job]] = {}
        self._prompts: dict[int, PromptRows] = {}
        self._beam_groups = BeamGroups(scheduler, runner.copy, sampler)
        self._draft_proposer = DraftProposer(drafts, sampler.vocabulary)
        self.validate_prompt_length = scheduler.validate_prompt_length
        self.validate_beams = scheduler.validate_beams
        self.longest = scheduler.longest

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def add(self, job: Job) -> None:
        """Add a job. Its siblings start when its prompt is computed."""
        id = job.sequence.id
        self._scheduler.add(job.sequence)
        self._jobs[id] = job
        for one in (job, *job.siblings):
            self.metrics.arrived(one.sequence)
        if job.siblings:
            self._waiting_siblings[id] = list(job.siblings)
        if job.context or job.prompt_logprobs:
            self._prompts[id] = PromptRows(job)
        if job.beams is not None:
            self._beam_groups.begin(job)

    def drop(self, id: int) -> None:
        """Free a sequence at once; ignore one that has already ended.

        Siblings that wait for its prompt continue without it.
        """
        self.metrics.ended(id, "cancelled")
        job = self._jobs.pop(id, None)
        if job is None:
            for waiting in self._waiting_siblings.values():
                waiting[:] = [one for one in waiting if one.sequence.id != id]
            return
        self._prompts.pop(id, None)
        self._draft_proposer.forget(id)
        self._scheduler.finish(job.sequence)
        remaining = self._waiting_siblings.pop(id, [])
        if job.beams is not None:
            self._beam_groups.end(job)
            for one in job.siblings:
                self.metrics.ended(one.sequence.id, "cancelled")
            return
        if remaining:
            self.add(remaining[0])
            self._waiting_siblings[remaining[0].sequence.id] = remaining[1:]

    def drop_all(self) -> list[int]:
        ids = [one for id in list(self._jobs) for one in self._with_siblings(id)]
        for id in reversed(ids):
            self.drop(id)
        return ids

    def step(self, now: float) -> list[Delta]:
        """Run one step: schedule, compute, sample, apply."""
        step = self._scheduler.schedule(now)
        deltas = [
            Delta(id=id, outcome="expired")
            for sequence in step.expired
            for id in self._end(sequence.id, "expired")
        ]
        if not step.chunks:
            return deltas
        began = self.metrics.now()
        self.metrics.began(chunk.sequence for chunk in step.chunks)
        for part in self._oom_backoff.parts(step.chunks, self._compute):
            if isinstance(part, Computed):
                deltas += self._apply(part.chunks, part.result)
            else:
                deltas += self._failed(part.chunk, part.reason)
        self._scheduler.budget = self._oom_backoff.budget
        self.metrics.stepped(sum(chunk.count for chunk in step.chunks), began)
        return deltas

    def stats(self) -> Stats:
        """May be called from any thread; the numbers may be of different steps."""
        return self.metrics.stats(self._scheduler, self._footprint)

    def begin_counting(self) -> None:
        """Reset all counters. The lane must be idle."""
        self.metrics = RequestMetrics()
        self._scheduler.begin_counting()

    def check(self) -> None:
        """Raises CorruptBlocks unless pages and sequences agree; for tests, after a step."""
        self._scheduler.check()

    def _compute(self, chunks: tuple[Chunk, ...]) -> StepResult:
        """Run the model and sample. Raises RuntimeError if the device fails."""
        rows = self._runner.forward(chunks)
        draws = self._draw_requests(rows)
        drawn = draw_tokens(self._sampler, rows.logits, draws)
        return StepResult(
            rows=rows, draws=draws, drawn=drawn, searches=self._beam_groups.offer(rows)
        )

    def _draw_requests(self, rows: StepRows) -> list[DrawRequest]:
        """Return the draws of a step; siblings that start now draw from their prompt's last row."""
        draws: list[DrawRequest] = []
        for kept in rows.kept:
            if kept.chunk.rows and kept.chunk.sequence.id not in self._beam_groups:
                draws += self._draw_requests_of(kept)
        return draws

    def _draw_requests_of(self, kept: ChunkRows) -> list[DrawRequest]:
        sequence = kept.chunk.sequence
        job = self._jobs[sequence.id]
        drafts = tuple(sequence.drafts[: kept.chunk.rows - 1])
        siblings = self._waiting_siblings.get(sequence.id, ())
        return [
            DrawRequest(job=job, row=kept.draw, drafts=drafts),
            *(DrawRequest(job=sibling, row=kept.draw, parent=job) for sibling in siblings),
        ]

    def _apply(self, chunks: Many[Chunk], computed: StepResult) -> list[Delta]:
        """Append each answer's tokens, mark the chunks as computed, and start siblings."""
        logits, now = computed.rows.logits, self.metrics.now()
        # Before the tokens: `_append_tokens` returns the prompt's rows with the first token.
        for kept in computed.rows.kept:
            if (prompt := self._prompts.get(kept.chunk.sequence.id)) is not None:
                prompt.add(kept.chunk.start, logits[kept.first : kept.first + kept.count])
        deltas = [
            self._append_tokens(draw, tokens, logits, now)
            for draw, tokens in zip(computed.draws, computed.drawn, strict=True)
        ]
        right = {delta.id: len(delta.drawn) for delta in deltas}
        for chunk in chunks:
            # Chunks inside a prompt and beams have no draw, and no drafts to reject.
            tokens = right.get(chunk.sequence.id, 1)
            self._scheduler.advance(chunk, max(0, chunk.rows - tokens))
            if chunk.rows > 1:
                self._draft_proposer.learn(chunk.sequence, chunk.rows - 1, tokens - 1)
            chunk.sequence.drafts.clear()
        # Fork before dropping ended answers: a parent that ends in this step still has its pages.
        for draw in computed.draws:
            if draw.parent is not None:
                self._begin(draw.job, draw.parent)
        for delta in deltas:
            if delta.outcome is not None:
                self.metrics.ended(delta.id, delta.outcome)
                self.drop(delta.id)
        for search in computed.searches:
            deltas += self._advance_search(search, now)
        running = [draw.job for draw in computed.draws if draw.job.sequence.id in self._jobs]
        self._draft_proposer.propose(running, len(self._jobs))
        return deltas

    def _begin(self, job: Job, parent: Job) -> None:
        """Start a sibling from its parent's prompt."""
        self._waiting_siblings.pop(parent.sequence.id, None)
        self._jobs[job.sequence.id] = job
        self._fork(parent.sequence, job.sequence)

    def _append_tokens(
        self, draw: DrawRequest, drawn: list[SampledToken], logits: Tensor, now: float
    ) -> Delta:
        """Append the tokens, up to one that ends the answer."""
        job, sequence = draw.job, draw.job.sequence
        if drawn[0].token == NO_TOKEN:
            return Delta(id=sequence.id, outcome="failed", reason=NO_NUMBERS)
        first = sequence.generated == 0
        outcome: Outcome | None = None
        match: tuple[int, ...] = ()
        count = 0
        reason = field = ""
        while outcome is None and count < len(drawn):
            if drawn[count].token == NO_TOKEN:
                outcome, reason = "failed", NO_NUMBERS
                break
            sequence.tokens.append(drawn[count].token)
            outcome, match = ended(job, sequence.tokens)
            count += 1
        self.metrics.drew(sequence, count, now)
        self.metrics.drafted(len(draw.drafts), count - 1 if draw.drafts else 0)
        if job.grammar is not None and job.grammar.failure:
            outcome, reason, field = "failed", job.grammar.failure, job.grammar.field
        elif outcome is None and job.grammar is not None and job.grammar.over:
            outcome = "stop_sequence"
        cached = max((draw.parent or job).sequence.cached, 0)
        # The prompt's rows are complete; after a preemption the prefix cache may be used.
        if first and draw.parent is None:
            sequence.fresh = False
        prompt = self._prompts.pop(sequence.id, None)
        rows = logits[draw.row : draw.row + count].cpu() if job.generation else None
        return Delta(
            id=sequence.id,
            drawn=tuple(drawn[:count]),
            outcome=outcome,
            match=match,
            reason=reason,
            field=field,
            cached=cached,
            logits=rows,
            context=prompt.logits if prompt is not None and job.context else None,
            prompt=prompt.drawn if prompt is not None else (),
            timing=self.metrics.timing(sequence.id) if first else None,
        )

    def _advance_search(self, search: BeamSearch, now: float) -> list[Delta]:
        """Advance every beam of a search by one token, or return its answers."""
        lead = search.job.sequence
        running = self._beam_groups.advance(search)
        self.metrics.drew(lead, max(running, 1), now)
        if running:
            return []
        prompt = self._prompts.get(lead.id)
        timing = self.metrics.timing(lead.id)
        deltas = [
            replace(delta, timing=timing)
            for delta in answers(search, self._with_siblings(lead.id), prompt)
        ]
        for delta in deltas:
            self.metrics.ended(delta.id, delta.outcome or "")
        self.drop(lead.id)
        return deltas

    def _fork(self, parent: Sequence, child: Sequence) -> None:
        copy = self._scheduler.fork(parent, child)
        if copy is not None:
            self._runner.copy(*copy)

    def _with_siblings(self, id: int) -> list[int]:
        """Return the id of an answer and of those that wait for its prompt."""
        return [id, *(one.sequence.id for one in self._waiting_siblings.get(id, ()))]

    def _end(self, id: int, outcome: Outcome) -> list[int]:
        """End a sequence's answer and those that wait for its prompt; return their ids."""
        id = self._beam_groups.owner(id)
        if id not in self._jobs:
            return []
        ids = self._with_siblings(id)
        self._waiting_siblings.pop(id, None)
        for one in ids:
            self.metrics.ended(one, outcome)
        self.drop(id)
        return ids

    def _failed(self, chunk: Chunk, reason: str) -> list[Delta]:
        """Fail the answer of a chunk that the device cannot compute (memory, a kernel)."""
        text = f"the device cannot compute this answer, even on its own: {reason}"
        return [
            Delta(id=id, outcome="failed", reason=text)
            for id in self._end(chunk.sequence.id, "failed")
        ]
