"""`python -m strowger_gateway.local_engine.doctor`: report the devices and call each kernel once.

Prints a JSON list of [what, found] pairs. It is a separate process because the gateway does not
import torch and a broken torch-npu installation can crash the process that imports it.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch

from strowger_gateway.local_engine.device import (
    Available,
    choose_device,
    choose_dtype,
    free_bytes,
    probe,
)
from strowger_gateway.local_engine.ops.kernel_selection import select_kernels
from strowger_gateway.local_engine.ops.native_build import cpu_kernels
from strowger_gateway.local_engine.ops.sampler_trial import sampler_problem
from strowger_gateway.local_engine.ops.self_test import Shape

Line = tuple[str, str]

CANN_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
CANN_DEFAULT = Path("/usr/local/Ascend")

TYPICAL = Shape(heads=32, kv_heads=8, width=128, hidden=4096)
"""The shape of a model with eight billion parameters; the self-tests compute a few tokens."""


VOCABULARY = 32_000
"""For the sampler's trial."""


def main() -> int:
    sys.stdout.buffer.write(msgspec.json.encode(list(lines())) + b"\n")
    return 0


def lines(shape: Shape = TYPICAL, vocabulary: int = VOCABULARY) -> Iterator[Line]:
    """Report on devices and packages. shape, vocabulary: of the kernels' and sampler's trials."""
    available = probe()
    for name, problem in (("npu", available.npu), ("cuda", available.cuda), ("cpu", "")):
        yield f"device {name}", problem or "usable"
    if fault := pairing_problem(_version("torch"), _version("torch-npu")):
        yield "torch and torch-npu", fault
    yield "CANN", cann(os.environ, CANN_DEFAULT)
    device = choose_device("auto", available)
    dtype = choose_dtype("auto", device, available)
    yield "engine", f"runs on {device} in {_short(dtype)} by default"
    yield "why this dtype", dtype_reason(device, available)
    yield "free memory", f"{free_bytes(device) / 1e9:.1f} GB on {device}"
    yield from _kernels(device, dtype, shape, vocabulary)


def pairing_problem(torch_version: str, npu_version: str) -> str:
    """Return "" if the versions match or torch-npu is not installed, else the problem.

    Versions are pip's, "" for a missing package. torch-npu X.Y.Z (any .postN) is built for torch
    X.Y.Z only.
    """
    if not npu_version:
        return ""
    if _release(torch_version) == _release(npu_version):
        return ""
    return (
        f"torch-npu {npu_version} needs torch {_release(npu_version)}, but {torch_version} is "
        "installed; install the pair that docs/ascend.md lists"
    )


def cann(environment: Mapping[str, str], default: Path) -> str:
    """Return where Ascend's toolkit is installed, without loading it."""
    for name in CANN_HOMES:
        if home := environment.get(name):
            found = "" if Path(home).is_dir() else ", which is not a folder"
            return f"{name} is {home}{found}"
    if default.is_dir():
        return f"{default} exists, but its set_env.sh was not sourced"
    return "not found"


def dtype_reason(device: str, available: Available) -> str:
    if device != "cpu":
        return "half the memory of float32, and native to the device"
    if available.cpu_bfloat16:
        return "this CPU has bfloat16 instructions"
    return "this CPU has no bfloat16 instructions (AMX or AVX512-BF16)"


def _kernels(device: str, dtype: torch.dtype, shape: Shape, vocabulary: int) -> Iterator[Line]:
    """Call every kernel of the device once and compare its result with torch's."""
    selection = select_kernels(device, dtype, (shape,), thorough=True)
    for trial in selection.trials:
        yield f"kernel {trial.kernel}", trial.problem or f"matches torch, used for {trial.role}"
    if not selection.trials:
        reported: list[str] = []
        cpu_kernels("auto", device, dtype, reported.append)
        yield "kernels", reported[-1] if reported else "torch's own kernels"
    if selection.probe is not None:
        reason = f"; {selection.probe.problem}" if selection.probe.problem else ""
        yield "sampling operator", selection.probe.version.value + reason
    if device != "cpu":
        problem = sampler_problem(torch.device(device), vocabulary)
        yield "sampler", problem or "draws the tokens that the host draws"


def _release(version: str) -> str:
    """Return 2.13.0 for 2.13.0.post2+cpu."""
    found = re.match(r"\d+(\.\d+)*", version)
    return found.group() if found else version


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


if __name__ == "__main__":
    sys.exit(main())
