"""Verify drafts that come with the logits they were drawn from, by rejection sampling.

A draft d is accepted with probability min(1, p(d) / q(d)); at the first rejection a token is drawn
from the normalised max(p - q, 0). The result is distributed as p for any q
(https://arxiv.org/abs/2211.17192, theorem 1).
"""

from math import inf

import torch
from torch import Tensor

from strowger_gateway.local_engine.execution.step_sampler import (
    SampledToken,
    SamplingState,
    StepSampler,
    allowed_by,
)
from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.counter_rng import exponentials, row_keys, uniforms
from strowger_gateway.local_engine.sampling.exact_device import at
from strowger_gateway.local_engine.sampling.sampler import NO_TOKEN, probabilities, processed


def verify(
    sampler: StepSampler,
    logits: Tensor,
    answer: SamplingState,
    drafts: tuple[int, ...],
    proposal: Tensor,
) -> list[SampledToken]:
    """Return the accepted drafts and one more token; NO_TOKEN behind those before a broken row.

    logits: [1 + D, V] float32 rows of the model, after the answer's last token and each draft.
    proposal: [at least D, V] float32; its softmax is what the drafts were drawn from.
    """
    logits = at(logits, sampler.device)
    drawn: list[SampledToken] = []
    for place, draft in enumerate(drafts):
        row = logits[place : place + 1]
        if not bool(row.amax() < inf):
            return [*drawn, SampledToken(token=NO_TOKEN)]
        token = _accept_or_redraw(sampler, row, answer, place, draft, proposal[place])
        drawn.append(_drawn(row[0], token, answer.params.logprobs))
        if token != draft:
            return drawn
    return drawn + sampler.draw(logits[len(drafts) :], [answer], [len(drafts)])


def _accept_or_redraw(
    sampler: StepSampler, row: Tensor, answer: SamplingState, place: int, draft: int, guess: Tensor
) -> int:
    """Return the draft or the token that replaces it; advances history and grammar.

    If p equals q, the rest is empty and a draft is rejected only if it was not drawn from q;
    then p is used.
    """
    position = answer.sequence.generated + place
    rows = SamplingRows(
        [answer.params],
        [position],
        [answer.history],
        vocabulary=sampler.vocabulary,
        device=sampler.device,
    )
    allowed = allowed_by([answer.grammar], sampler.vocabulary, sampler.device)
    wanted = probabilities(processed(row, rows, allowed), rows)[0].double()
    offered = guess.to(wanted.device).double().softmax(-1)
    seed = torch.tensor([[answer.params.seed]], dtype=torch.int64, device=wanted.device)
    keys = row_keys(seed, torch.full_like(seed, position))
    token = draft
    if not bool(uniforms(keys.clone())[0, 0] * offered[draft] < wanted[draft]):
        rest = (wanted - offered).clamp_min_(0)
        if not bool(rest.sum() > 0):
            rest = wanted
        ids = torch.arange(sampler.vocabulary, device=wanted.device).unsqueeze(0)
        token = int((rest / exponentials(keys, ids)[0]).argmax())
    rows.advance([token])
    if answer.grammar is not None:
        answer.grammar.advance(token)
    return token


def _drawn(row: Tensor, token: int, logprobs: int) -> SampledToken:
    if logprobs < 0:
        return SampledToken(token=token)
    scores = row.log_softmax(-1)
    best = scores.topk(logprobs)
    top = [(int(id), float(value)) for id, value in zip(best.indices, best.values, strict=True)]
    return SampledToken(token=token, logprob=float(scores[token]), top=tuple(top))
