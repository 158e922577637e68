"""Which device and dtype is chosen, and the error if that is not possible."""

import pytest
import torch

from strowger_gateway.local_engine.device import Available, choose_device, choose_dtype, probe
from strowger_gateway.schemas.errors import InvalidConfig

NOTHING = Available(npu="not installed", cuda="no device", cpu_bfloat16=False)
EVERYTHING = Available(npu="", cuda="", cpu_bfloat16=True)
CUDA = Available(npu="not installed", cuda="", cpu_bfloat16=False)


@pytest.mark.parametrize(
    ("available", "device"), [(NOTHING, "cpu"), (CUDA, "cuda"), (EVERYTHING, "npu")]
)
def test_the_best_available_device_is_chosen(available: Available, device: str) -> None:
    assert choose_device("auto", available) == device


def test_a_configured_device_is_used_or_rejected_with_the_reason() -> None:
    assert choose_device("cpu", EVERYTHING) == "cpu"
    with pytest.raises(InvalidConfig, match=r"engine\.device: npu cannot be used: not installed"):
        choose_device("npu", NOTHING)


def test_bfloat16_is_used_where_it_is_fast() -> None:
    assert choose_dtype("auto", "cpu", NOTHING) == torch.float32
    assert choose_dtype("auto", "cpu", EVERYTHING) == torch.bfloat16
    assert choose_dtype("auto", "cuda", NOTHING) == torch.bfloat16
    assert choose_dtype("float16", "cpu", NOTHING) == torch.float16


def test_the_devices_of_this_machine_are_detected() -> None:
    available = probe()

    assert choose_device("auto", available) in {"cpu", "cuda", "npu"}
