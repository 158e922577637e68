"""What the stand-in knows of torch-npu is what its wheel says; it is read and never installed."""

# torch._C's schema classes are annotated in part only:
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from torch import Tensor

from tests.local_engine.stand_ins import npu_device
from tests.local_engine.stand_ins.npu_stand_in import FUNCTIONS, torch_npu
from tests.local_engine.stand_ins.npu_wheel import (
    DOCUMENTS,
    LIBRARY,
    LISTS,
    committed,
    read_wheel,
)
from tests.local_engine.stand_ins.npu_wheel import FUNCTIONS as READ

DOCUMENT = '''_add_torch_npu_docstr(
    "npu_rms_norm",
    """
参数说明
self：Tensor类型，支持float16、float、bfloat16，输入shape支持2-8维。
epsilon：float数据类型，用于防止除0错误。
输出说明
x：Tensor，支持float64。
"""
)
'''


@pytest.mark.nightly
def test_the_wheel_has_the_operators_and_signatures_of_the_stand_in(tmp_path: Path) -> None:
    version = committed().version
    download = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:")
    subprocess.run([*download, "-d", str(tmp_path), f"torch-npu=={version}"], check=True)

    (wheel,) = tmp_path.glob("torch_npu-*.whl")

    assert read_wheel(wheel) == committed()


def test_a_wheel_is_read_without_being_installed(tmp_path: Path) -> None:
    schemas = {name: f"(Tensor x, int {name[-1]}=1) -> Tensor" for name in READ}
    library = b"\0".join(f"{name}{schema}".encode() for name, schema in schemas.items())
    wheel = tmp_path / "torch_npu-9.8.7-cp311-cp311-linux.whl"
    with ZipFile(wheel, "w") as made:
        made.writestr(LISTS[0], "supported:\n - clone\n - func: add.Tensor\n - npu_only\n")
        made.writestr(LISTS[1], "symint:\n - zeros(SymInt[] size) -> Tensor\n")
        made.writestr(LIBRARY, b"\x7fELF\0" + library + b"\0npu_swiglu(\0")
        made.writestr(DOCUMENTS, DOCUMENT.replace("\n", "\r\n"))

    read = read_wheel(wheel)

    assert read.version == "9.8.7"
    assert read.schemas == schemas
    assert read.operators == ["add.Tensor", "clone", "zeros"]
    assert read.dtypes == {"npu_rms_norm": {"self": ["bfloat16", "float16", "float32"]}}


def test_a_function_that_the_wheel_no_longer_registers_is_named(tmp_path: Path) -> None:
    wheel = tmp_path / "torch_npu-9.8.7-cp311-cp311-linux.whl"
    with ZipFile(wheel, "w") as made:
        for name in LISTS:
            made.writestr(name, "supported: []\n")
        made.writestr(LIBRARY, b"")
        made.writestr(DOCUMENTS, "")

    with pytest.raises(KeyError, match="npu_add_rms_norm: 0 signatures"):
        read_wheel(wheel)


def test_every_function_of_the_stand_in_has_the_wheels_signature() -> None:
    schemas = committed().schemas

    assert FUNCTIONS.keys() == schemas.keys()
    for name, schema in schemas.items():
        parsed = torch._C.parse_schema(name + schema)
        assert [parsed.name, *filter(None, [parsed.overload_name])] == name.split(".")


def test_the_device_has_the_operators_of_the_wheel_and_no_others() -> None:
    npu_device.start()
    listed = set(committed().operators)
    unlisted = ["special_bessel_j0", "geqrf", "_nested_from_padded"]
    registered = torch._C._dispatch_has_kernel_for_dispatch_key

    assert listed.isdisjoint(unlisted)
    for name in ("add.Tensor", "topk", "bitwise_right_shift.Tensor_out"):
        assert registered(f"aten::{name}", "PrivateUse1")
    for name in unlisted:
        assert not registered(f"aten::{name}", "PrivateUse1")


MIXED: list[tuple[str, int]] = [("npu_rms_norm", 1), ("npu_rms_norm", 0)]


@pytest.mark.parametrize(("name", "astray"), MIXED)
def test_a_kernel_takes_tensors_of_one_device_only(name: str, astray: int) -> None:
    npu_device.start()
    given: list[Tensor] = [torch.ones(2, 8, device="npu"), torch.ones(8, device="npu")]
    call = getattr(torch_npu(), name)
    assert call(*given)[0].device.type == "npu"

    given[astray] = given[astray].cpu()

    with pytest.raises(RuntimeError, match="same device"):
        call(*given)


def test_dtypes_that_the_documents_do_not_list_are_refused() -> None:
    with pytest.raises(RuntimeError, match="int64 is not among bfloat16, float16, float32"):
        torch_npu().npu_rms_norm(torch.ones(2, 8, dtype=torch.int64), torch.ones(8), 1e-6)
