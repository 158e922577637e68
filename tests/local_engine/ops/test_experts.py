"""Mixtures of experts on an NPU, which has no grouped product of torch's own."""

# torch and transformers annotate these members in part only:
# pyright: reportUnknownMemberType=false

from pathlib import Path

import pytest
import torch

from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.ops.experts import take_experts
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted
from tests.local_engine.execution.test_equality import GREEDY, prompts
from tests.local_engine.ops.test_kernel_refusals import PARAMETERS, refusing
from tests.local_engine.ops.test_npu_engine import answers, npu_lane
from tests.local_engine.stand_ins.npu_installed import npu_installed
from tests.local_engine.stand_ins.npu_stand_in import torch_npu

MIXTURES = ("mixtral", "qwen3_moe", "gpt_oss", "deepseek_v3")


def logits(folder: Path, *, ours: bool) -> torch.Tensor:
    module = load(str(folder), device="cpu", dtype=torch.float32).module
    module.set_attn_implementation("eager")
    if ours:
        assert take_experts(module)
    else:
        module.set_experts_implementation("eager")
    with torch.inference_mode():
        return module(torch.arange(40).unsqueeze(0) * 37 % 400, use_cache=False).logits[0]


@pytest.mark.parametrize("family", MIXTURES)
def test_experts_are_those_of_transformers_own_code(family: str, folder: Folder) -> None:
    """Gates, biases, and weights in either layout, one expert per token and several."""
    torch.testing.assert_close(
        logits(folder(family), ours=True), logits(folder(family), ours=False), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_an_npu_computes_experts_by_its_grouped_product(family: str, folder: Folder) -> None:
    stand_in = torch_npu()

    lane, _, settled = npu_lane(folder(family), stand_in)
    given = answers(lane, prompts())

    assert all(len(one) == GREEDY.max_tokens for one in given)
    assert [one.problem for one in settled.trials if one.role == "experts"] == [""]
    steps = stand_in.calls["npu_fused_infer_attention_score_v2"]
    assert stand_in.calls["npu_grouped_matmul"] == 2 * steps


def test_a_grouped_product_that_refuses_is_replaced_by_one_per_expert(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in = torch_npu()
    lane, _, _ = npu_lane(folder("mixtral"), stand_in)
    expected = answers(lane, prompts())
    lane, _, _ = npu_lane(folder("mixtral"), stand_in)
    refusing(stand_in, "npu_grouped_matmul", lambda call, _: PARAMETERS if call > 9 else "")

    given = answers(lane, prompts())

    assert given == expected
    assert len([one for one in caplog.messages if "kernel for experts refuses" in one]) == 1


def test_a_mixture_runs_on_a_device_without_grouped_products_of_torch(folder: Folder) -> None:
    """The stand-in's device has the operators of the wheel, and no others."""
    with npu_installed():
        runs = Runs(hosted(folder("mixtral"), device="npu", dtype="float32").lane)
        for prompt in prompts():
            runs.add(prompt, GREEDY)
        given = runs.finish()
    runs = Runs(hosted(folder("mixtral")).lane)
    for prompt in prompts():
        runs.add(prompt, GREEDY)

    assert given == runs.finish()


def test_other_devices_keep_transformers_experts(folder: Folder) -> None:
    loaded = load(str(folder("mixtral")), device="cpu", dtype=torch.float32)

    Runner(loaded, device="cpu", kv_bytes=1 << 20, max_tokens=4096)

    assert loaded.module.get_experts_implementation()[""] != "local_engine"
