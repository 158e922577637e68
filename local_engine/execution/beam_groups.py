"""The beam searches of a lane: beams are sequences that fork, wait for each other and end."""

from collections.abc import Callable, Sequence
from itertools import count

import torch

from strowger_gateway.local_engine.execution.beam_search import Beam, BeamSearch, Candidate
from strowger_gateway.local_engine.execution.jobs import NO_NUMBERS, Delta, Job
from strowger_gateway.local_engine.execution.model_runner import StepRows
from strowger_gateway.local_engine.execution.prompt_logits import PromptRows
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import Sequence as TokenSequence
from strowger_gateway.local_engine.scheduling.sequence import twin


class BeamGroups:
    """Maps sequences to their beam searches. Forked beams have ids below 0.

    copy: copies a page to another, in every layer of the cache.
    """

    def __init__(
        self, scheduler: Scheduler, copy: Callable[[int, int], None], sampler: StepSampler
    ) -> None:
        self._scheduler = scheduler
        self._copy = copy
        self._sampler = sampler
        self._of: dict[int, BeamSearch] = {}
        self._ids = count(-1, -1)

    def __contains__(self, id: int) -> bool:
        return id in self._of

    def owner(self, id: int) -> int:
        """Return the id of the answer of a beam's sequence; other sequences are their own."""
        search = self._of.get(id)
        return id if search is None else search.job.sequence.id

    def begin(self, job: Job) -> None:
        self._of[job.sequence.id] = BeamSearch(
            job, vocabulary=self._sampler.vocabulary, device=self._sampler.device
        )

    def end(self, job: Job) -> None:
        """Free the pages of the search's beams."""
        for id in [id for id, search in self._of.items() if search.job is job]:
            for beam in self._of.pop(id).live:
                self._scheduler.finish(beam.sequence)

    def offer(self, rows: StepRows) -> list[BeamSearch]:
        """Pass a step's rows to their searches; return the searches with rows for all beams."""
        touched: dict[int, BeamSearch] = {}
        for kept in rows.kept:
            search = self._of.get(kept.chunk.sequence.id)
            if search is not None and kept.chunk.rows:
                search.offer(kept.chunk.sequence.id, rows.logits[kept.draw])
                kept.chunk.sequence.offered = True
                touched[id(search)] = search
        return [search for search in touched.values() if search.ready]

    def advance(self, search: BeamSearch) -> int:
        """Advance every beam by one token; return how many continue, 0 when the search is done."""
        candidates = search.choose()
        if search.done:
            return 0
        taken: set[int] = set()
        beams: list[Beam] = []
        for candidate in candidates:
            parent = candidate.parent.sequence
            sequence = parent if parent.id not in taken else twin(parent, next(self._ids))
            taken.add(sequence.id)
            beams.append(search.beam(candidate, sequence))
        self._regroup(search, candidates, beams)
        return len(beams)

    def _regroup(
        self, search: BeamSearch, candidates: Sequence[Candidate], beams: list[Beam]
    ) -> None:
        """Fork first, while the parents are unchanged; then append each beam's token."""
        for candidate, beam in zip(candidates, beams, strict=True):
            parent = candidate.parent.sequence
            if beam.sequence is not parent:
                beam.sequence.tokens.append(candidate.token)
                self._fork(parent, beam.sequence)
        running = {beam.sequence.id for beam in beams}
        for beam in search.live:
            if beam.sequence.id not in running:
                del self._of[beam.sequence.id]
                self._scheduler.finish(beam.sequence)
        for candidate, beam in zip(candidates, beams, strict=True):
            if beam.sequence is candidate.parent.sequence:
                beam.sequence.tokens.append(candidate.token)
                self._scheduler.resume(beam.sequence)
            self._of[beam.sequence.id] = search
        search.live = beams

    def _fork(self, parent: TokenSequence, child: TokenSequence) -> None:
        copy = self._scheduler.fork(parent, child)
        if copy is not None:
            self._copy(*copy)


def answers(search: BeamSearch, ids: Sequence[int], prompt: PromptRows | None) -> list[Delta]:
    """Return the best hypotheses of a finished search, one for each of `ids`."""
    lead = search.job.sequence
    reason = NO_NUMBERS if search.broken else "beam search ended with fewer hypotheses"
    found_none = [
        Delta(id=id, outcome="failed", reason=reason) for id in ids[len(search.hypotheses) :]
    ]
    return found_none + [
        Delta(
            id=id,
            drawn=found.drawn,
            outcome=found.finish,
            match=found.match,
            cached=max(lead.cached, 0),
            logits=torch.stack(found.rows) if found.rows else None,
            context=prompt.logits if prompt is not None and id == lead.id else None,
            prompt=prompt.drawn if prompt is not None else (),
        )
        for id, found in zip(ids, search.hypotheses, strict=False)
    ]
