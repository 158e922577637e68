"""Compare the engine's attention with transformers' own, once per loaded model.

transformers' modules run twice over the same weights: with their own eager attention and masks, and
with the engine's attention, which gets no masks and has to know what the model's masks hide. What
it does not know shows here, as other logits, and the model is refused: it would answer wrongly.
The prompt is longer than the smallest window or chunk and is followed by single tokens, as in real
use. Windows are narrowed for the trial, so that forty tokens suffice for every model.
"""

# transformers annotates these members in part only:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final, cast

import torch
from torch import Tensor, nn
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_utils import PreTrainedModel

from strowger_gateway.local_engine.ops.attention import NAME
from strowger_gateway.local_engine.ops.layer_rules import LayerRule, rules_of, take_over
from strowger_gateway.local_engine.ops.trial_log import Trying, trying

PROMPT: Final = 36
DECODED: Final = 4
"""Tokens of the trial: a prompt, and single tokens after it."""

NARROW: Final = 16
"""The width of windows and chunks, in tokens, during the trial."""

LONGEST: Final = "max_position_embeddings"
FLOOR: Final = "floor_scale"
WINDOWS: Final = ("sliding_window", "attention_chunk_size", FLOOR)
"""Fields of configurations, and of attention modules, that count tokens."""

AGREES: Final[Mapping[torch.dtype, float]] = {
    torch.float32: 1e-3,
    torch.float16: 5e-2,
    torch.bfloat16: 1e-1,
}
"""The greatest mean difference of a token's logits, relative to their mean size."""

FEWEST: Final = 0.75
"""The share of tokens that have to agree: rounding may choose other experts for a few."""

Steps = Callable[[Tensor, int, Mapping[int, LayerRule]], tuple[Tensor, Mapping[int, int]]]
"""Runs ids [T] through the engine: so many as a prompt, each other one as a step of its own.

Returns the logits [T, V] and how often each layer has attended in the first step.
"""


class WrongAttention(ValueError):
    """The engine's attention is not the model's; the message says how that shows."""


def compare_with_eager(
    module: PreTrainedModel, config: PreTrainedConfig, ids: Tensor, steps: Steps
) -> None:
    """Raises WrongAttention.

    module: loaded with the engine's attention. config: of its text model. ids: [T], PROMPT +
    DECODED of them or as many as the model's context has. steps: runs them through the engine.
    """
    with trying("the whole model", "this engine's attention") as trial:
        _compare(module, config, ids, steps, trial)


def _compare(
    module: PreTrainedModel, config: PreTrainedConfig, ids: Tensor, steps: Steps, trial: Trying
) -> None:
    prompt = max(1, len(ids) - DECODED)
    trial.tried = f"a prompt of {prompt} tokens, {len(ids) - prompt} decoded"
    with narrowed(module, config):
        rules = rules_of(module, config)
        expected = _eager(module, ids)
        found, calls = steps(ids, prompt, rules)
    wrong = sorted(layer for layer, count in calls.items() if count != 1)
    if wrong:
        raise WrongAttention(
            f"layer {wrong[0]} attends {calls[wrong[0]]} times per token, and this engine keeps "
            "the keys and values of one attention per layer"
        )
    if not bool(torch.isfinite(expected).all()):
        half = module.dtype == torch.float16
        remedy = "; set engine.dtype: bfloat16 or float32" if half else ": its weights are broken"
        raise WrongAttention(
            "transformers' own attention gives numbers that are not finite in "
            f"{str(module.dtype).removeprefix('torch.')}{remedy}"
        )
    allowed = AGREES[module.dtype]
    gaps = (found - expected).abs().mean(-1) / expected.abs().mean(-1).clamp_min(1e-6)
    agree = gaps <= allowed
    trial.gap = float(gaps.max())
    for name, part in (("prompt", slice(0, prompt)), ("decoded", slice(prompt, None))):
        rows = agree[part]
        if len(rows) and float(rows.float().mean()) < FEWEST:
            what = "a prompt" if name == "prompt" else "a token after the prompt"
            raise WrongAttention(
                f"the logits of {what} differ from transformers' own eager attention "
                f"by {float(gaps[part].max()):.0%}"
            )


@contextmanager
def narrowed(module: nn.Module, config: PreTrainedConfig) -> Generator[None]:
    """Narrow the windows and chunks of a model and its configuration to NARROW tokens.

    Windows and chunks as long as the context never hide a token, and stay as they are.
    """
    longest = config.max_position_embeddings if hasattr(config, LONGEST) else 0
    changed: list[tuple[object, str, object]] = []
    owners: list[object] = [config, *module.modules()]
    owners += [one for one in (getattr(owner, "config", None) for owner in owners) if one]
    try:
        for owner in {id(one): one for one in owners}.values():
            for name in WINDOWS:
                # Not getattr: a configuration refuses to name one value for unlike layers.
                value = vars(owner).get(name)
                if isinstance(value, int | float) and value > NARROW:
                    if longest and value >= longest and name != FLOOR:
                        continue
                    changed.append((owner, name, value))
                    setattr(owner, name, NARROW)
        yield
    finally:
        for owner, name, value in changed:
            setattr(owner, name, value)


@torch.inference_mode()
def _eager(module: PreTrainedModel, ids: Tensor) -> Tensor:
    """Return [T, V] float32 logits with transformers' own attention, masks and positions."""
    take_over(module, taken=False)
    module.set_attn_implementation("eager")
    try:
        output = module(input_ids=ids.unsqueeze(0), use_cache=False)
    finally:
        module.set_attn_implementation(NAME)
        take_over(module, taken=True)
    return cast(Tensor, output.logits)[0].float()
