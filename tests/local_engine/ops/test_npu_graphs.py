"""Decoding steps as graphs of the stand-in's device: what is captured, updated and given up."""

from pathlib import Path
from typing import cast

import pytest
import torch

from strowger_gateway.local_engine.execution.model_lane import ModelLane
from strowger_gateway.local_engine.execution.model_runner import Runner
from strowger_gateway.local_engine.execution.oom_backoff import BrokenDevice
from strowger_gateway.local_engine.execution.step_sampler import StepSampler
from strowger_gateway.local_engine.loading.checkpoint import load
from strowger_gateway.local_engine.ops.kernel_selection import select_npu_kernels
from strowger_gateway.local_engine.ops.npu.graphs import GraphNPU
from strowger_gateway.local_engine.ops.npu.operators import TorchNPU
from strowger_gateway.local_engine.ops.npu.paged_cache import PAGE
from strowger_gateway.local_engine.ops.npu.sampling import SamplingNPU
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.ops.test_npu_engine import SOC, npu_lane
from tests.local_engine.stand_ins import npu_device
from tests.local_engine.stand_ins.npu_graph import Graphs, Stream, state
from tests.local_engine.stand_ins.npu_stand_in import StandIn, torch_npu
from tests.local_engine.tiny import save_model

ATTENTION = "npu_fused_infer_attention_score_v2"


def graph_lane(
    folder: Path, stand_in: StandIn, graphs: Graphs | None = None
) -> tuple[ModelLane, Runner]:
    """graphs: in place of torch.npu's part for graphs."""
    npu_device.start()
    loaded = load(str(folder), device="npu", dtype=torch.float16)
    settled = select_npu_kernels(
        cast(TorchNPU, stand_in),
        cast(SamplingNPU, stand_in),
        SOC,
        torch.float16,
        loaded.shapes,
        graphs=cast(GraphNPU, graphs or torch.get_device_module("npu")),
    )
    runner = Runner(
        loaded,
        device="npu",
        kv_bytes=1 << 23,
        max_tokens=16 * PAGE,
        kernels=settled.kernels,
        capture=settled.capture,
    )
    limits = SchedulerLimits(max_step_tokens=512, max_sequences=8, max_seq_len=256)
    pool = BlockPool(runner.blocks, runner.block_size, prefix_cache=True)
    sampler = StepSampler(loaded.vocab, "npu", settled.operator)
    return ModelLane(runner, Scheduler(limits, pool), sampler), runner


@pytest.fixture(autouse=True)
def working_device() -> None:
    """As it is after a start with the engine's own settings."""
    state.capture = state.pending = state.update = state.group = None
    state.level = 2


def answers(lane: ModelLane) -> list[list[int]]:
    """Answers of different lengths, the first of them over the end of a page."""
    runs = Runs(lane)
    for start, length, count in ((5, 122, 9), (70, 4, 3), (90, 9, 6)):
        prompt = list(range(start, start + length))
        runs.add(prompt, Sampling(temperature=0.0, max_tokens=count, ignore_eos=True))
    return runs.finish()


@pytest.fixture(scope="module")
def expected(folder: Folder) -> list[list[int]]:
    """The answers of llama without graphs."""
    return answers(npu_lane(folder("llama"), torch_npu())[0])


@pytest.mark.parametrize(
    "family",
    [
        "llama",
        pytest.param("mistral", id="windows", marks=pytest.mark.nightly),
        pytest.param("qwen3", marks=pytest.mark.nightly),
    ],
)
def test_captured_steps_give_the_tokens_of_plain_ones(family: str, folder: Folder) -> None:
    plain, _, _ = npu_lane(folder(family), torch_npu())
    captured, runner = graph_lane(folder(family), torch_npu())
    expected = answers(plain)
    before = len(state.graphs)

    given = [answers(captured), answers(captured)]

    assert given == [expected, expected]
    assert runner.graphs is not None
    assert runner.graphs.problem == ""
    assert runner.graphs.sizes == (1, 2, 4)
    assert len(state.graphs) - before == 3
    # One per size compares; two prompts' steps and those with them are not captured.
    assert sum(graph.replays for graph in state.graphs[before:]) >= 2 * 7
    assert state.level == 1


class Deaf(Graphs):
    """Task updates have no effect."""

    def graph_task_update_end(self, stream: Stream) -> None:
        state.update = None


class Fixed(Graphs):
    """A torch-npu whose task queue keeps its level."""

    def set_task_queue_enable(self, mode: int) -> None:
        pass


class Old(Graphs):
    """A torch-npu without graphs."""

    NPUGraph = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    ("graphs", "reason"),
    [
        pytest.param(Deaf(), "differs from the same step", id="no updates"),
        pytest.param(
            Fixed(), "Do not support TASK_QUEUE_ENABLE = 2", id="queue", marks=pytest.mark.nightly
        ),
        pytest.param(Old(), "not callable", id="no graphs", marks=pytest.mark.nightly),
    ],
)
def test_graphs_that_do_not_work_cost_speed_and_no_token(
    graphs: Graphs,
    reason: str,
    folder: Folder,
    expected: list[list[int]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    lane, runner = graph_lane(folder("llama"), torch_npu(), graphs)

    given = answers(lane)

    assert given == expected
    assert runner.graphs is not None
    assert reason in runner.graphs.problem
    assert sum("are not captured" in message for message in caplog.messages) == 1
    assert state.level == 2 or isinstance(graphs, Deaf)


def refusing(stand_in: StandIn, after: int, text: str) -> None:
    """Let the captured attention refuse its calls after so many."""
    kernel = getattr(stand_in, ATTENTION)
    out, calls = kernel.out, 0

    def called(*args: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls > after:
            raise RuntimeError(text)
        return out(*args, **keywords)

    kernel.out = called


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(0, id="capture"),
        pytest.param(1, id="second layer", marks=pytest.mark.nightly),
        pytest.param(17, id="a later update"),
    ],
)
def test_a_captured_attention_that_refuses_leaves_the_ordinary_one_in_use(
    after: int, folder: Folder, expected: list[list[int]]
) -> None:
    stand_in = torch_npu()
    lane, runner = graph_lane(folder("llama"), stand_in)
    refusing(stand_in, after, "call aclnnX failed, error code is 161002")

    first = answers(lane)
    before = stand_in.calls[ATTENTION]
    second = answers(lane)

    assert [first, second] == [expected, expected]
    assert runner.graphs is not None
    assert "161002" in runner.graphs.problem
    assert stand_in.calls[ATTENTION] > before
    assert state.pending is None


def test_a_core_that_fails_in_an_update_ends_the_process(folder: Folder) -> None:
    stand_in = torch_npu()
    lane, _ = graph_lane(folder("llama"), stand_in)
    answers(lane)
    refusing(stand_in, 0, "the error code is 507015: aicore exception")

    with pytest.raises(BrokenDevice):
        answers(lane)


@pytest.mark.nightly
def test_layers_that_the_attention_does_not_compute_are_not_captured(tmp_path: Path) -> None:
    """A window that fails its trial is torch's."""
    folder = save_model(tmp_path, "mistral")
    stand_in = torch_npu()
    kernel = getattr(stand_in, ATTENTION)

    def plain(*args: object, **keywords: object) -> object:
        if keywords["sparse_mode"] == 4:
            raise RuntimeError("sparse mode 4 is not supported")
        return kernel(*args, **keywords)

    setattr(stand_in, ATTENTION, plain)
    for name in ("npu_fused_infer_attention_score",):
        delattr(stand_in, name)

    _, runner = graph_lane(folder, stand_in)

    assert runner.block_size == PAGE
    assert runner.graphs is None


@pytest.mark.nightly
def test_heads_that_are_too_wide_for_the_attention_are_not_captured(tmp_path: Path) -> None:
    folder = save_model(tmp_path, "llama", head_dim=160)

    _, runner = graph_lane(folder, torch_npu())

    assert runner.graphs is None


def test_the_stand_in_computes_nothing_in_a_capture_and_all_of_it_in_a_replay() -> None:
    npu_device.start()
    state.level = 1
    npu = cast(Graphs, torch.get_device_module("npu"))
    x, total = torch.ones(3, device="npu"), torch.zeros(3, device="npu")
    graph = npu.NPUGraph()

    with npu.graph(graph):
        total.add_(x * 2)
    captured = total.cpu()
    x.fill_(5)
    graph.replay()
    graph.replay()

    assert torch.equal(captured, torch.zeros(3))
    assert torch.equal(total.cpu(), torch.full((3,), 20.0))


def test_the_stand_in_refuses_what_a_capture_cannot_have() -> None:
    npu_device.start()
    state.level = 1
    npu = cast(Graphs, torch.get_device_module("npu"))
    x = torch.ones(3, device="npu")
    graph = npu.NPUGraph()

    for forbidden in (x.cpu, x.sum().item, lambda: torch.ones(3).to("npu")):
        with pytest.raises(RuntimeError, match="capture mode"), npu.graph(npu.NPUGraph()):
            forbidden()
    with npu.graph(graph):
        x.mul_(2)
    del x
    with pytest.raises(RuntimeError, match="freed since"):
        graph.replay()


def test_the_stand_in_hangs_where_a_graph_waits_for_an_event_that_is_not_recorded() -> None:
    npu_device.start()
    state.level = 1
    npu = cast(Graphs, torch.get_device_module("npu"))
    x, event, graph = torch.ones(3, device="npu"), npu.ExternalEvent(), npu.NPUGraph()
    with npu.graph(graph):
        event.wait(npu.current_stream())
        event.reset(npu.current_stream())
        x.mul_(2)
    graph.replay()

    with pytest.raises(RuntimeError, match="the device hangs"):
        x.cpu()
    event.record(npu.Stream())
    assert torch.equal(x.cpu(), torch.full((3,), 2.0))
