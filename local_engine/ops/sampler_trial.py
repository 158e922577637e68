"""Try the engine's own sampler on a device, against the host, before a model is served.

The sampler is torch's operations in an order that only this engine uses. A device may refuse one
of them or compute it differently: every row with a seed or log probabilities would then fail or be
drawn wrongly. As for a kernel, a trial at loading decides.
"""

from typing import Final, cast

import torch
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.ops.device_faults import REFUSALS, first_line, meaning
from strowger_gateway.local_engine.sampling.batch_params import SamplingRows
from strowger_gateway.local_engine.sampling.logits_processors import Allowed
from strowger_gateway.local_engine.sampling.sampler import Sampled, sample
from strowger_gateway.local_engine.sampling.sampling_params import RowParams
from strowger_gateway.local_engine.sampling.token_history import new_history

_PLAIN = RowParams(temperature=0.8, seed=20, seeded=True)
KINDS: Final[dict[str, RowParams]] = {
    "greedy": RowParams(temperature=0.0),
    "seed": _PLAIN,
    "temperature 1": replace(_PLAIN, temperature=1.0),
    "top-k": replace(_PLAIN, top_k=40),
    "top-k over 1024": replace(_PLAIN, top_k=1100),
    "top-k and top-p": replace(_PLAIN, top_k=300, top_p=0.9),
    "top-p": replace(_PLAIN, top_p=0.9),
    "min-p": replace(_PLAIN, min_p=0.02),
    "typical-p": replace(_PLAIN, typical_p=0.8),
    "log probabilities": replace(_PLAIN, top_k=20, logprobs=5),
    "penalties": replace(_PLAIN, repetition_penalty=1.2, frequency_penalty=0.3, bad_words=((3,),)),
    "logit bias": replace(_PLAIN, logit_bias=((2, 3.0),), min_tokens=4, end_ids=(1,)),
    "a grammar": replace(_PLAIN, top_p=0.95),
}
"""One row of each kind."""

STEPS = 2
CLOSE = 1e-3
"""Allowed difference of log probabilities."""


def sampler_problem(device: torch.device, vocabulary: int) -> str:
    """Return "" if the device draws the host's tokens, else why not; "" for the host itself.

    Raises what a broken device or one without memory raises.
    """
    if device.type == "cpu":
        return ""
    try:
        there = _draw(device, vocabulary)
    except REFUSALS as exc:
        if meaning(exc) != "refusal":
            raise
        return first_line(exc)
    return _difference(there, _draw(torch.device("cpu"), vocabulary))


@torch.inference_mode()
def _draw(device: torch.device, vocabulary: int) -> list[tuple[list[int], Sampled]]:
    """Return the tokens and log probabilities of some steps of one batch."""
    params = [*KINDS.values()]
    histories = [new_history(row, [1, 2, 2], 2, vocabulary=vocabulary) for row in params]
    positions = [0] * len(params)
    rows = SamplingRows(params, positions, histories, vocabulary=vocabulary, device=device)
    mask = torch.arange(vocabulary).remainder(3).eq(1).unsqueeze(0)
    grammar = torch.tensor([len(params) - 1])
    allowed = Allowed(mask=mask.to(device), rows=grammar.to(device))
    steps: list[tuple[list[int], Sampled]] = []
    for step in range(STEPS):
        sampled = sample(_logits(len(params), vocabulary, step).to(device), rows, allowed)
        tokens = cast(list[int], sampled.ids.tolist())  # pyright: ignore[reportUnknownMemberType]
        steps.append((tokens, sampled))
        rows.advance(tokens)
    return steps


def _logits(rows: int, vocabulary: int, step: int) -> Tensor:
    """Random logits in eighths, of which many are equal: the first row's largest, for example."""
    random = torch.Generator().manual_seed(step)
    logits = torch.randn(rows, vocabulary, generator=random).mul_(24).round_().div_(8)
    logits[0].clamp_max_(4.0)
    return logits


def _difference(
    there: list[tuple[list[int], Sampled]], here: list[tuple[list[int], Sampled]]
) -> str:
    for (tokens, ours), (expected, reference) in zip(there, here, strict=True):
        wrong = [
            kind
            for kind, token, right in zip(KINDS, tokens, expected, strict=True)
            if token != right
        ]
        if wrong:
            return f"draws other tokens than the host: {', '.join(wrong)}"
        if ours.logprobs is None or reference.logprobs is None:
            continue
        if not torch.equal(ours.logprobs.top_ids.cpu(), reference.logprobs.top_ids):
            return "lists other tokens by log probability than the host"
        for mine, right in (
            (ours.logprobs.top, reference.logprobs.top),
            (ours.logprobs.chosen, reference.logprobs.chosen),
        ):
            most = float((mine.cpu() - right).abs().max())
            if not most <= CLOSE:
                return f"log probabilities differ from the host's by up to {most:.2g}"
    return ""
