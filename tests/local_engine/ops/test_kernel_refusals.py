"""A kernel that refuses a call costs speed: no start, no step and no answer fails."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from strowger_gateway.local_engine.execution.oom_backoff import BrokenDevice
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.execution.test_equality import prompts
from tests.local_engine.ops.test_npu_engine import answers, assert_greedy, npu_lane
from tests.local_engine.stand_ins.npu_stand_in import StandIn, torch_npu
from tests.local_engine.tiny import save_model

TIE = 0.1
"""Sixty tokens find closer ties than a few; without any refusal, one is 0.08 apart."""

KERNELS = {
    "npu_rms_norm": "norm",
    "npu_add_rms_norm": "add and norm",
    "npu_rotary_mul": "rotary embedding",
    "npu_swiglu": "swiglu",
    "npu_scatter_pa_kv_cache": "attention",
    "npu_fused_infer_attention_score_v2": "attention",
}
OFTEN = ("npu_rotary_mul", "npu_fused_infer_attention_score_v2")
"""Tried in every run, at the first and the hundredth call; the others at night."""

FEW, MANY = 8, 60
"""Tokens of an answer: with many, each kernel is called more than a hundred times."""
PARAMETERS = (
    "call aclnnX failed, error code is 161002\n"
    "[ERROR] 2026-11-29-05:12:25 (PID:1, Device:0, RankID:-1) ERR00100 PTA call acl api failed.\n"
    "AclNN_Parameter_Error(EZ1001): the shape is not supported"
)
"""What torch-npu raises for arguments that a kernel does not take."""


def plain(count: int) -> Sampling:
    return Sampling(temperature=0.0, max_tokens=count, ignore_eos=True)


def refusing(stand_in: StandIn, name: str, refuses: Callable[[int, torch.Tensor], str]) -> None:
    """Let a kernel refuse calls. refuses: the message, "" for none, by call and first tensor."""
    kernel = getattr(stand_in, name)
    calls = 0

    def called(first: torch.Tensor, *args: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if text := refuses(calls, first):
            raise RuntimeError(text)
        return kernel(first, *args, **keywords)

    setattr(stand_in, name, called)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        pytest.param(
            name,
            after,
            id=f"{name}, {when} decode",
            marks=() if name in OFTEN else pytest.mark.nightly,
        )
        for name in KERNELS
        for after, when in ((0, "first"), (1, "second"), (100, "hundredth"))
        if after != 1 or name not in OFTEN
    ],
)
def test_a_kernel_that_refuses_while_answers_run_is_replaced_and_no_token_changes(
    name: str, after: int, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    count = MANY if after > 1 else FEW
    stand_in = torch_npu()
    lane, runner, _ = npu_lane(folder("llama"), stand_in)
    assert runner.fused
    decoded = 0

    def refuses(_: int, first: torch.Tensor) -> str:
        nonlocal decoded
        decoded += first.shape[0 if first.dim() < 4 else 1] <= 5
        return PARAMETERS if decoded > after else ""

    refusing(stand_in, name, refuses)
    with caplog.at_level(logging.WARNING):
        given = answers(lane, prompts(), plain(count))

    assert_greedy(folder("llama"), prompts(), given, count, TIE)
    said = [one for one in caplog.messages if f"the kernel for {KERNELS[name]} refuses" in one]
    assert len(said) == 1
    assert "161002" in said[0]


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=() if one in OFTEN else pytest.mark.nightly) for one in KERNELS],
)
def test_a_kernel_that_refuses_in_the_model_though_not_alone_does_not_stop_the_start(
    name: str, folder: Folder
) -> None:
    stand_in = torch_npu()
    refusing(stand_in, name, lambda _, x: PARAMETERS if x.shape[0] == 8 or x.dim() == 4 else "")

    lane, runner, _ = npu_lane(folder("llama"), stand_in)

    assert runner.fused
    assert_greedy(folder("llama"), prompts(), answers(lane, prompts()))


def test_yarn_keeps_the_kernel_that_takes_no_angle_beyond_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """YaRN's factor lengthens sines and cosines beyond 1, which npu_rotary_mul refuses."""
    rope = {"rope_type": "yarn", "factor": 8.0, "rope_theta": 1e4}
    folder = save_model(
        tmp_path,
        "qwen3",
        rope_parameters={**rope, "original_max_position_embeddings": 32},
    )
    stand_in = torch_npu()

    lane, runner, _ = npu_lane(folder, stand_in)
    given = answers(lane, prompts())

    assert_greedy(folder, prompts(), given)
    assert runner.fused
    assert stand_in.calls["npu_rotary_mul"] > 0
    assert not [one for one in caplog.messages if "refuses" in one]


@pytest.mark.parametrize(
    "text",
    [
        "NPU function error: AclrtSynchronizeStreamWithTimeout, error code is 507035\n"
        "[ERROR] ERR00100 PTA call acl api failed\n[Error]: The vector core execution is abnormal.",
        pytest.param(
            "ACL stream synchronize failed, error code is 507015 ERR00100 PTA call acl api failed",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "SUSPECT REMOTE ERROR, error code is 507057 ERR00100 PTA call acl api failed",
            marks=pytest.mark.nightly,
        ),
        "rtDeviceSynchronize: aicore exception",
    ],
)
def test_a_device_that_lost_its_state_ends_the_engine_and_blames_no_answer(
    text: str, folder: Folder
) -> None:
    stand_in = torch_npu()
    lane, _, _ = npu_lane(folder("llama"), stand_in)
    refusing(stand_in, "npu_rms_norm", lambda call, _: text if call > 20 else "")
    runs = Runs(lane)
    for prompt in prompts():
        runs.add(prompt, plain(MANY))

    with pytest.raises(BrokenDevice, match="the device failed"):
        runs.finish()

    assert runs.outcomes == {}


def test_exhausted_memory_is_no_refusal(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    """The step is computed in halves, and the kernel stays."""
    stand_in = torch_npu()
    lane, _, _ = npu_lane(folder("llama"), stand_in)
    full = "NPU out of memory. Tried to allocate 52.00 MiB (NPU 0; 60.96 GiB total capacity)"
    refusing(stand_in, "npu_rms_norm", lambda call, _: full if call == 3 else "")

    given = answers(lane, prompts(), plain(FEW))

    assert_greedy(folder("llama"), prompts(), given, FEW, TIE)
    assert not [one for one in caplog.messages if "refuses" in one]
