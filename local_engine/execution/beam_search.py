"""Beam search over one prompt: select the live beams and the finished hypotheses.

Scores, ties and ends are those of transformers' `generate(num_beams=…)`: a hypothesis scores the
sum of its tokens' log probabilities (after the processors) / length ** length_penalty, and the
search ends by `early_stopping` as documented there
(https://huggingface.co/docs/transformers/main_classes/text_generation).
"""

# torch annotates tolist in part only:
# pyright: reportUnknownMemberType=false

from math import inf
from typing import cast

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.execution.jobs import Beams, Job, ended
from strowger_gateway.local_engine.execution.step_sampler import SampledToken, allowed_by
from strowger_gateway.local_engine.guided.grammar import Grammar
from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.sampler import processed
from strowger_gateway.local_engine.sampling.sampling_params import GREEDY_BELOW
from strowger_gateway.local_engine.sampling.token_history import History
from strowger_gateway.local_engine.scheduling.sequence import Finish, Sequence


class Beam(Struct, frozen=True, kw_only=True, eq=False):
    """A live continuation. score: the sum of its tokens' log probabilities, float32.

    rows: the logits of each of its tokens, [V] on the CPU, if requested.
    """

    sequence: Sequence
    score: float
    drawn: tuple[SampledToken, ...]
    rows: tuple[Tensor, ...]
    history: History | None
    grammar: Grammar | None


class Candidate(Struct, frozen=True, kw_only=True, eq=False):
    """A beam and its next token. score, rows: as a beam's."""

    parent: Beam
    token: int
    score: float
    drawn: tuple[SampledToken, ...]
    rows: tuple[Tensor, ...]


class Hypothesis(Struct, frozen=True, kw_only=True, eq=False):
    """A finished continuation. score: normalised by length. rows: as a beam's."""

    score: float
    drawn: tuple[SampledToken, ...]
    rows: tuple[Tensor, ...]
    finish: Finish
    match: tuple[int, ...]


class BeamSearch:
    """Collects each live beam's logits with `offer`; when `ready`, `choose` advances by a token.

    live: the beams, best first. hypotheses: the finished ones, best first, at most `width`.
    done: the search has ended; `hypotheses` are the answer. broken: because logits were not
    numbers.
    """

    def __init__(self, job: Job, *, vocabulary: int, device: torch.device) -> None:
        """job: with `beams`; its sequence is the first beam's."""
        assert job.beams is not None
        self.job = job
        self.beams: Beams = job.beams
        self.live = [
            Beam(
                sequence=job.sequence,
                score=0.0,
                drawn=(),
                rows=(),
                history=job.history,
                grammar=job.grammar,
            )
        ]
        self.hypotheses: list[Hypothesis] = []
        self.done = self.broken = False
        self._vocabulary = vocabulary
        self._device = device
        self._rows: dict[int, Tensor] = {}

    def offer(self, id: int, row: Tensor) -> None:
        """row: [V] float32 logits after the last token of the beam whose sequence has this id."""
        self._rows[id] = row

    @property
    def ready(self) -> bool:
        return all(beam.sequence.id in self._rows for beam in self.live)

    @property
    def length(self) -> int:
        """Tokens that every live beam has generated."""
        return len(self.live[0].drawn)

    def choose(self) -> list[Candidate]:
        """Return the beams of the next step, best first; none when the search is done."""
        if not all(bool(row.amax() < inf) for row in self._rows.values()):
            self.hypotheses, self.done, self.broken = [], True, True
            return []
        candidates = self._candidates()
        self._rows.clear()
        width, length = self.beams.width, self.length + 1
        norms = _normalised([one.score for one in candidates], length, self.beams.length_penalty)
        full = len(self.hypotheses) == width and self.beams.early_stopping is True
        running: list[Candidate] = []
        for rank, (candidate, norm) in enumerate(zip(candidates, norms, strict=True)):
            tokens = [*candidate.parent.sequence.tokens, candidate.token]
            finish, match = ended(self.job, tokens)
            if finish is None:
                running.append(candidate)
            elif rank < width and not full:
                self._finish(candidate, norm, finish, match)
        running = running[:width]
        self.done = not running or self._closed(running[0].score, length)
        return [] if self.done else running

    def beam(self, candidate: Candidate, sequence: Sequence) -> Beam:
        """Return the candidate as a beam; the sequence already has its token."""
        parent = candidate.parent
        history = None if parent.history is None else parent.history.fork()
        grammar = None if parent.grammar is None else parent.grammar.fork()
        if history is not None:
            history.append(candidate.token)
        if grammar is not None:
            grammar.advance(candidate.token)
        return Beam(
            sequence=sequence,
            score=candidate.score,
            drawn=candidate.drawn,
            rows=candidate.rows,
            history=history,
            grammar=grammar,
        )

    def _finish(
        self, candidate: Candidate, score: float, finish: Finish, match: tuple[int, ...]
    ) -> None:
        self.hypotheses.append(
            Hypothesis(
                score=score,
                drawn=candidate.drawn,
                rows=candidate.rows,
                finish=finish,
                match=match,
            )
        )
        self.hypotheses.sort(key=lambda one: one.score, reverse=True)
        del self.hypotheses[self.beams.width :]

    def _closed(self, best: float, length: int) -> bool:
        """True if no live beam, the best of which scores `best`, can still improve the answer."""
        if len(self.hypotheses) < self.beams.width:
            return False
        if self.beams.early_stopping is True:
            return True
        if self.beams.early_stopping == "never" and self.beams.length_penalty > 0:
            length = self.job.sequence.max_total - self.job.sequence.prompt
        (possible,) = _normalised([best], length, self.beams.length_penalty)
        return possible <= self.hypotheses[-1].score

    def _candidates(self) -> list[Candidate]:
        """Return the best continuations of all live beams, enough that `width` continue."""
        logits = torch.stack([self._rows[beam.sequence.id] for beam in self.live])
        raw = [row.cpu() for row in logits] if self.job.generation else []
        params = self.job.params
        if params.temperature >= GREEDY_BELOW and params.temperature != 1:
            logits = logits / params.temperature
        plain = logits.log_softmax(-1)
        scores = torch.tensor([beam.score for beam in self.live], device=logits.device)
        sums = (self._processed(plain) + scores.unsqueeze(1)).view(-1)
        ends = len(self.job.ends | self.job.stops)
        count = min(max(2, 1 + ends) * self.beams.width, sums.numel())
        best = sums.topk(count)
        places = cast(list[int], best.indices.tolist())
        values = cast(list[float], best.values.tolist())
        alternatives = self._alternatives(plain)
        chosen = cast(list[float], plain.view(-1)[best.indices].tolist())
        candidates: list[Candidate] = []
        for place, value, logprob in zip(places, values, chosen, strict=True):
            row, token = divmod(place, self._vocabulary)
            parent = self.live[row]
            drawn = SampledToken(token=token, logprob=logprob, top=alternatives[row])
            candidates.append(
                Candidate(
                    parent=parent,
                    token=token,
                    score=value,
                    drawn=(*parent.drawn, drawn),
                    rows=(*parent.rows, raw[row]) if raw else (),
                )
            )
        return candidates

    def _processed(self, logprobs: Tensor) -> Tensor:
        """Apply the processors to log probabilities, as transformers' beam search does."""
        count = len(self.live)
        rows = SamplingRows(
            [self.job.params] * count,
            [self.length] * count,
            [beam.history for beam in self.live],
            vocabulary=self._vocabulary,
            device=self._device,
        )
        grammars = [beam.grammar for beam in self.live]
        return processed(logprobs, rows, allowed_by(grammars, self._vocabulary, self._device))

    def _alternatives(self, logprobs: Tensor) -> list[tuple[tuple[int, float], ...]]:
        """Return each live beam's most likely tokens, as many as the client requested."""
        count = self.job.params.logprobs
        if count <= 0:
            return [()] * len(self.live)
        best = logprobs.topk(count, dim=-1)
        ids = cast(list[list[int]], best.indices.tolist())
        values = cast(list[list[float]], best.values.tolist())
        return [tuple(zip(*row, strict=True)) for row in zip(ids, values, strict=True)]


def _normalised(scores: list[float], length: int, penalty: float) -> list[float]:
    """Return scores normalised by length, in float32 like the sums."""
    return cast(list[float], (torch.tensor(scores) / float(length**penalty)).tolist())
