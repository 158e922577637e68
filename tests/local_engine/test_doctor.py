"""The report of `strowger doctor` on devices, packages and kernels."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from strowger_gateway.local_engine.device import Available
from strowger_gateway.local_engine.doctor import cann, dtype_reason, lines, pairing_problem
from strowger_gateway.local_engine.ops.self_test import Shape
from tests.local_engine.stand_ins import npu_device
from tests.local_engine.stand_ins.npu_installed import npu_installed

PAIRS = [
    ("2.13.0", "2.13.0", True),
    ("2.13.0+cpu", "2.13.0", True),
    ("2.12.0", "2.12.0.post3", True),
    ("2.13.0+cpu", "", True),
    ("2.14.0", "2.13.0", False),
    ("2.13.1", "2.13.0.post1", False),
]
SMALL = Shape(heads=4, kv_heads=2, width=128, hidden=256)
WORDS = 1500
"""More than the 1,024 candidates of which the sampler sorts the others on its own."""

PLAIN = Available(npu="not installed", cuda="no device", cpu_bfloat16=False)
FAST = Available(npu="not installed", cuda="no device", cpu_bfloat16=True)


@pytest.mark.parametrize(("torch_version", "npu_version", "fine"), PAIRS)
def test_torch_npu_needs_the_same_version_of_torch(
    torch_version: str, npu_version: str, fine: bool
) -> None:
    problem = pairing_problem(torch_version, npu_version)

    assert (problem == "") == fine
    assert fine or (torch_version in problem and "docs/ascend.md" in problem)


def test_the_toolkit_is_found_by_its_environment_variables(tmp_path: Path) -> None:
    here, nowhere = str(tmp_path), str(tmp_path / "none")
    cases: list[tuple[Mapping[str, str], Path, str]] = [
        ({"ASCEND_HOME_PATH": here}, Path(nowhere), f"ASCEND_HOME_PATH is {here}"),
        ({"ASCEND_TOOLKIT_HOME": nowhere}, tmp_path, "which is not a folder"),
        ({}, tmp_path, "set_env.sh was not sourced"),
        ({}, Path(nowhere), "not found"),
    ]

    for environment, default, expected in cases:
        assert expected in cann(environment, default)


def test_the_choice_of_dtype_comes_with_its_reason() -> None:
    assert "no bfloat16 instructions" in dtype_reason("cpu", PLAIN)
    assert "has bfloat16 instructions" in dtype_reason("cpu", FAST)
    assert "half the memory" in dtype_reason("npu", PLAIN)


def test_an_npu_is_reported_with_its_kernels_operator_and_sampler() -> None:
    with npu_installed():
        report = dict(lines(SMALL, WORDS))

    assert report["device npu"] == "usable"
    assert report["engine"] == "runs on npu in bfloat16 by default"
    kernels = [found for what, found in report.items() if what.startswith("kernel ")]
    assert len(kernels) >= 8
    assert all(found.startswith("matches torch, used for ") for found in kernels)
    assert report["sampling operator"] == "aclnnTopKTopPSampleV2"
    assert report["sampler"] == "draws the tokens that the host draws"


def test_an_npu_that_refuses_an_operation_of_the_sampler_is_reported_with_it() -> None:
    with npu_installed():
        npu_device.start()
        npu_device.refused.add("topk")
        try:
            report = dict(lines(SMALL, WORDS))
        finally:
            npu_device.refused.discard("topk")

    assert report["sampler"] == "RuntimeError: aclnnStatus 561103: topk"
    assert report["sampling operator"] == "aclnnTopKTopPSampleV2"


def test_every_machine_gets_a_complete_report() -> None:
    report = dict(lines())

    assert {"device npu", "device cuda", "device cpu", "CANN", "engine", "free memory"} <= set(
        report
    )
    assert report["device cpu"] == "usable"
    assert any(what.startswith("kernel") for what in report)
