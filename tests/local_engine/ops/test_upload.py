"""A step's numbers reach the device in one copy."""

import torch

from strowger_gateway.local_engine.ops.upload import Upload
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs
from tests.local_engine.ops.test_npu_engine import npu_lane
from tests.local_engine.stand_ins.npu_device import UPLOAD, launched, start
from tests.local_engine.stand_ins.npu_stand_in import torch_npu


def test_a_step_on_an_npu_copies_once_to_the_device(folder: Folder) -> None:
    """Ids, positions, slots, rows to sample from and pages of prompts, and of single tokens."""
    lane, _, _ = npu_lane(folder("llama"), torch_npu())
    runs = Runs(lane)
    copies: list[int] = []
    for number in range(6):
        if number < 2:
            greedy = Sampling(temperature=0.0, max_tokens=8, ignore_eos=True)
            runs.add([5 + number] * (150 - 100 * number), greedy)
        before = launched.get(UPLOAD, 0)
        runs.step()
        copies.append(launched[UPLOAD] - before)

    assert copies[3:] == [1, 1, 1]
    # The sampler's parameters as well, while the batch changes.
    assert max(copies) <= 2


def test_the_parameters_of_rows_that_the_operator_draws_are_one_copy_more(folder: Folder) -> None:
    """And only when the batch changes."""
    lane, _, _ = npu_lane(folder("llama"), torch_npu())
    runs = Runs(lane)
    copies: list[int] = []
    for number in range(4):
        if number < 2:
            free = Sampling(
                temperature=0.8, top_k=20, top_p=0.9 - number / 10, max_tokens=8, ignore_eos=True
            )
            runs.add([5 + number] * 20, free)
        before = launched.get(UPLOAD, 0)
        runs.step()
        copies.append(launched[UPLOAD] - before)

    assert copies == [2, 2, 1, 1]


def test_without_page_locked_memory_numbers_are_copied_from_ordinary_memory() -> None:
    start()
    upload = Upload("npu")

    first, second = upload([3, 1 << 40]), upload([7])

    assert first.device.type == "npu"
    assert first.dtype == torch.int64
    assert torch.equal(first.cpu(), torch.tensor([3, 1 << 40]))
    assert torch.equal(second.cpu(), torch.tensor([7]))


def test_numbers_stay_on_the_host_without_a_device() -> None:
    assert torch.equal(Upload("cpu")([1, 2]), torch.tensor([1, 2]))
