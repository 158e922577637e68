"""transformers' side of a comparison: `generate()` on the same weights, in the same process."""

# transformers annotates these members only in part:
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import cast

import torch
from transformers.modeling_utils import PreTrainedModel

from benchmarks.engine.timing import Run, Stopwatch


def generate(
    model: PreTrainedModel,
    prompts: Sequence[list[int]],
    tokens: int,
    **sampling: float,
) -> Run:
    """Greedy without `sampling` (temperature, top_k, top_p); `tokens` new ones of each prompt."""
    ids = torch.tensor(prompts, device=model.device)
    whole = Stopwatch()
    first: list[Stopwatch] = []

    def stamp(ids: torch.Tensor, scores: object) -> torch.Tensor:
        """A stopping criterion is called once per step; this one never stops."""
        if not first:
            first.append(Stopwatch())
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

    out = model.generate(  # pyright: ignore  # transformers annotates no argument
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        do_sample=bool(sampling),
        eos_token_id=None,
        pad_token_id=0,
        stopping_criteria=[stamp],
        **sampling,
    )
    new = cast(torch.Tensor, out)[:, ids.shape[1] :]
    return Run(
        tokens=cast(list[list[int]], new.tolist()), whole=whole.read(), decode=first[0].read()
    )


def one_after_the_other(model: PreTrainedModel, prompts: Sequence[list[int]], tokens: int) -> Run:
    """One prompt at a time, each after the previous answer is complete."""
    watch = Stopwatch()
    answers = [generate(model, [prompt], tokens).tokens[0] for prompt in prompts]
    return Run(tokens=answers, whole=watch.read(), decode=watch.read())
