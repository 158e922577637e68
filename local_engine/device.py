"""Which device and number format the engine uses, and why not a better one.

The only place, beside ops/, that may import torch_npu. torch itself would import an installed
torch_npu at its start and fail on a machine without CANN, so its autoloading is turned off here.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch

from local_engine.config import DeviceName, DTypeName
from schemas.errors import InvalidConfig

BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""CPU features (/proc/cpuinfo) with which bfloat16 is faster than float32."""

DTYPES: dict[DTypeName, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Available(Struct, frozen=True, kw_only=True):
    """What this machine has. Each reason is "" where the device can be used."""

    npu: str
    cuda: str
    cpu_bfloat16: bool


def probe() -> Available:
    """Looks at this machine; imports torch_npu if it is installed."""
    return Available(
        npu=_npu_problem(),
        cuda="" if torch.cuda.is_available() else "torch sees no CUDA device",
        cpu_bfloat16=_cpu_has_bfloat16(Path("/proc/cpuinfo")),
    )


def choose_device(wanted: DeviceName, available: Available) -> str:
    """`auto` is npu, then cuda, then cpu. Raises InvalidConfig for a device that isn't there."""
    problems = {"npu": available.npu, "cuda": available.cuda, "cpu": ""}
    if wanted == "auto":
        return next(name for name, problem in problems.items() if not problem)
    if problems[wanted]:
        raise InvalidConfig((f"engine.device: {wanted} cannot be used: {problems[wanted]}",))
    return wanted


def choose_dtype(wanted: DTypeName, device: str, available: Available) -> torch.dtype:
    """`auto` is bfloat16, but float32 on a CPU whose bfloat16 is emulated."""
    if wanted != "auto":
        return DTYPES[wanted]
    slow = device == "cpu" and not available.cpu_bfloat16
    return torch.float32 if slow else torch.bfloat16


def free_bytes(device: str) -> int:
    """Memory that a new tensor may take on the device now, bytes."""
    if device == "cpu":
        return _available_memory(Path("/proc/meminfo"))
    free, _ = torch.get_device_module(device).mem_get_info()
    return int(free)


def _npu_problem() -> str:
    if find_spec("torch_npu") is None:
        return "torch-npu is not installed"
    try:
        import torch_npu  # noqa: F401  # pyright: ignore
    except (ImportError, OSError) as exc:
        return f"torch-npu is installed, but CANN's libraries are missing: {exc}"
    except RuntimeError as exc:
        return f"torch-npu cannot start: {exc}"
    if not torch.get_device_module("npu").is_available():
        return "torch-npu is installed, but sees no NPU"
    return ""


def _cpu_has_bfloat16(cpuinfo: Path) -> bool:
    if not cpuinfo.exists():
        return False
    for line in cpuinfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return not BFLOAT16_FLAGS.isdisjoint(value.split())
    return False


def _available_memory(meminfo: Path) -> int:
    """Linux's own estimate; 4 GiB where it cannot be read."""
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    return 4 << 30
