"""Sample a step's logits to tokens on the host; connects the engine loop and the sampler."""

# torch annotates tolist in part only:
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Protocol, cast

import torch
from msgspec import Struct
from torch import Tensor

from local_engine.guided.grammar import Grammar
from local_engine.sampling.batch_params import RowOperator, SamplingRows
from local_engine.sampling.logits_processors import Allowed
from local_engine.sampling.sampler import TokenLogprobs, sample
from local_engine.sampling.sampling_params import RowParams
from local_engine.sampling.token_history import History
from local_engine.scheduling.sequence import Sequence as TokenSequence


class SampledToken(Struct, frozen=True, kw_only=True):
    """One token. logprob, top: `None` and () if not requested.

    top: (token id, log probability), best first, as many as requested.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class SamplingState(Protocol):
    """The state of an answer that sampling reads; `history` comes from `new_history`."""

    @property
    def sequence(self) -> TokenSequence: ...

    @property
    def params(self) -> RowParams: ...

    @property
    def history(self) -> History | None: ...

    @property
    def grammar(self) -> Grammar | None: ...


class StepSampler:
    """Keeps the batch's parameters on the device while its composition does not change."""

    def __init__(self, vocabulary: int, device: str, operator: RowOperator | None = None) -> None:
        """operator: the device's sampling operator; used only for rows that it supports."""
        self.vocabulary = vocabulary
        self.device = torch.device(device)
        self._operator = operator
        self._rows: SamplingRows | None = None
        self._expected: list[tuple[int, int]] = []

    def draw(
        self, logits: Tensor, batch: Sequence[SamplingState], ahead: Sequence[int] | None = None
    ) -> list[SampledToken]:
        """logits: [R, V] float32; `batch` has the R rows' answers in the same order.

        ahead: how many tokens each row is beyond its answer's last one, when verifying drafts.
        An answer with a history or a grammar may appear only once.
        Waits for the device: this is the step's only copy to the host.
        """
        rows = self._sampling_rows(batch, ahead or [0] * len(batch))
        grammars = [one.grammar for one in batch]
        allowed = allowed_by(grammars, self.vocabulary, self.device)
        sampled = sample(logits, rows, allowed)
        tokens = cast(list[int], sampled.ids.tolist())
        rows.advance(tokens)
        for grammar, token in zip(grammars, tokens, strict=True):
            if grammar is not None:
                grammar.advance(token)
        if sampled.logprobs is None:
            return [SampledToken(token=token) for token in tokens]
        return _with_logprobs(tokens, sampled.logprobs, [one.params.logprobs for one in batch])

    def _sampling_rows(self, batch: Sequence[SamplingState], ahead: Sequence[int]) -> SamplingRows:
        places = [
            (one.sequence.id, one.sequence.generated + more)
            for one, more in zip(batch, ahead, strict=True)
        ]
        rows = self._rows
        if rows is None or places != self._expected:
            rows = self._rows = SamplingRows(
                [one.params for one in batch],
                [generated for _, generated in places],
                [one.history for one in batch],
                vocabulary=self.vocabulary,
                device=self.device,
                operator=self._operator,
            )
        self._expected = [(id, generated + 1) for id, generated in places]
        return rows


def allowed_by(
    grammars: Sequence[Grammar | None], vocabulary: int, device: torch.device
) -> Allowed | None:
    """Return the tokens that a batch's grammars permit now; at most one grammar per row."""
    places = [place for place, grammar in enumerate(grammars) if grammar is not None]
    if not places:
        return None
    mask = torch.zeros(len(places), vocabulary, dtype=torch.bool)
    for row, place in enumerate(places):
        grammar = grammars[place]
        assert grammar is not None
        grammar.allow(mask[row])
    rows = None if len(places) == len(grammars) else torch.tensor(places, device=device)
    return Allowed(mask=mask.to(device), rows=rows)


def _with_logprobs(
    tokens: list[int], logprobs: TokenLogprobs, counts: Sequence[int]
) -> list[SampledToken]:
    drawn = [SampledToken(token=token) for token in tokens]
    chosen = cast(list[float], logprobs.chosen.tolist())
    top = cast(list[list[float]], logprobs.top.tolist())
    ids = cast(list[list[int]], logprobs.top_ids.tolist())
    for row, place in enumerate(logprobs.places):
        best = zip(ids[row], top[row], strict=True)
        drawn[place] = SampledToken(
            token=tokens[place],
            logprob=chosen[row],
            top=tuple(best)[: counts[place]],
        )
    return drawn
