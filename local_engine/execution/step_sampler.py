"""Sample a step's logits to tokens on the host; connects the engine loop and the sampler."""

# torch annotates tolist in part only:
# pyright: reportUnknownMemberType=false

import logging
from collections.abc import Sequence
from typing import Final, Protocol, cast

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.guided.grammar import Grammar
from strowger_gateway.local_engine.ops.device_faults import REFUSALS, first_line, meaning
from strowger_gateway.local_engine.ops.sampler_trial import KINDS, sampler_problem
from strowger_gateway.local_engine.ops.trial_log import trying
from strowger_gateway.local_engine.sampling.batch_params import RowOperator, SamplingRows
from strowger_gateway.local_engine.sampling.exact_device import at
from strowger_gateway.local_engine.sampling.logits_processors import Allowed
from strowger_gateway.local_engine.sampling.sampler import NO_TOKEN, Sampled, TokenLogprobs, sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import History
from strowger_gateway.local_engine.scheduling.sequence import Sequence as TokenSequence

_log: Final = logging.getLogger("strowger.engine")


class SampledToken(Struct, frozen=True, kw_only=True):
    """One token, or NO_TOKEN. logprob, top: `None` and () if not requested.

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
    """Keeps the batch's parameters on the device while its composition does not change.

    If the device refuses a call, its operator is not used again, and then not the device: the
    logits move to the host, which draws the same tokens, more slowly. Each is logged once.
    """

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
        grammars = [one.grammar for one in batch]
        rows, sampled, tokens = self._drawn(logits, batch, grammars, ahead or [0] * len(batch))
        # An answer without a token ends in this step, whatever its history has then.
        rows.advance([max(token, 0) for token in tokens] if NO_TOKEN in tokens else tokens)
        for grammar, token in zip(grammars, tokens, strict=True):
            if grammar is not None and token != NO_TOKEN:
                grammar.advance(token)
        if sampled.logprobs is None:
            return [SampledToken(token=token) for token in tokens]
        return _with_logprobs(tokens, sampled.logprobs, [one.params.logprobs for one in batch])

    def _drawn(
        self,
        logits: Tensor,
        batch: Sequence[SamplingState],
        grammars: Sequence[Grammar | None],
        ahead: Sequence[int],
    ) -> tuple[SamplingRows, Sampled, list[int]]:
        """Draw a token per row, again if the device refuses a call; nothing advances before."""
        while True:
            rows = self._sampling_rows(batch, ahead)
            try:
                allowed = allowed_by(grammars, self.vocabulary, self.device)
                sampled = sample(at(logits, self.device), rows, allowed)
                return rows, sampled, cast(list[int], sampled.ids.tolist())
            except REFUSALS as exc:
                if self.device.type == "cpu" or meaning(exc) != "refusal":
                    raise
                self._give_up(first_line(exc))

    def _give_up(self, reason: str) -> None:
        """Stop using the operator, or else the device."""
        self._rows = None
        if self._operator is not None:
            self._operator = None
            _log.warning("the device's sampling operator is not used any more: %s", reason)
            return
        self.device = torch.device("cpu")
        _log.warning("the host draws tokens from now on, which is slower: %s", reason)

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


def tried_sampler(vocabulary: int, device: str, operator: RowOperator | None = None) -> StepSampler:
    """Return a sampler on the device, or on the host if the device fails the sampler's trial."""
    if torch.device(device).type == "cpu":
        return StepSampler(vocabulary, device, operator)
    with trying("sampling", f"torch on {device}") as trial:
        trial.tried = f"{len(KINDS)} kinds of rows"
        trial.problem = problem = sampler_problem(torch.device(device), vocabulary)
        trial.gap = 0.0
    if not problem:
        return StepSampler(vocabulary, device, operator)
    _log.warning(
        "%s fails the sampler's trial, so the host draws tokens, which is slower: %s",
        device,
        problem,
    )
    return StepSampler(vocabulary, "cpu")


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
