"""The bfloat16 path on a CPU: transformers' tokens, except for ties, and packed weights."""

from typing import cast

import pytest
import torch
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.ops.linear import PackedLinear, PlainLinear, shared_linear
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted
from tests.local_engine.execution.test_equality import GREEDY, prompts


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_bfloat16_answers_are_transformers_own(family: str, folder: Folder) -> None:
    """Logits count as tied if they differ by less than twice transformers' own bfloat16 error."""
    runs = Runs(hosted(folder(family), dtype="bfloat16").lane)
    for prompt in prompts():
        runs.add(prompt, GREEDY)

    given = runs.finish()

    agreed: list[Tensor] = []
    for prompt, answer in zip(prompts(), given, strict=True):
        exact, rounded = (
            logits(folder, family, dtype, prompt, answer)
            for dtype in (torch.float32, torch.bfloat16)
        )
        lost = (rounded - exact).abs().amax()
        tokens = torch.tensor(answer).unsqueeze(1)
        assert bool((exact.gather(1, tokens).squeeze(1) >= exact.amax(-1) - 2 * lost).all())
        agreed.append(rounded.argmax(-1) == tokens.squeeze(1))
    assert torch.cat(agreed).float().mean() > 0.9, "few choices are ties"


def logits(
    folder: Folder, family: str, dtype: torch.dtype, prompt: list[int], answer: list[int]
) -> Tensor:
    """Return [len(answer), V] float32: transformers' logits for the answer's tokens."""
    oracle = cast(
        PreTrainedModel,
        AutoModelForCausalLM.from_pretrained(  # pyright: ignore[reportUnknownMemberType]  # transformers
            folder(family), dtype=dtype, attn_implementation="eager"
        ),
    ).eval()
    with torch.inference_mode():
        whole = oracle(torch.tensor([[*prompt, *answer]])).logits
    return whole[0, len(prompt) - 1 : -1].float()


def test_bfloat16_weights_are_packed_where_the_cpu_multiplies_them(folder: Folder) -> None:
    fast = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

    module = load(str(folder("llama")), device="cpu", dtype=torch.bfloat16).module

    linear = shared_linear(module.get_submodule("model.layers.0.mlp.gate_proj"))
    assert isinstance(linear, PackedLinear if fast else PlainLinear)
    assert module.dtype == torch.bfloat16
