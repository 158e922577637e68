"""Choose the device and number format of the engine, and say why not a better one.

Only this module and ops/ may import torch_npu. torch would import an installed torch_npu at
startup and fail on a machine without CANN, so autoloading is turned off here. Settings of torch-npu
that suit an engine are made here, too, unless the environment has others.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
# torch-npu reads both once, when it is imported. Launches are prepared by a thread of their own,
# and the allocator grows its segments instead of leaving holes
# (https://www.hiascend.com/document, "TASK_QUEUE_ENABLE" and "PYTORCH_NPU_ALLOC_CONF").
os.environ.setdefault("TASK_QUEUE_ENABLE", "2")
os.environ.setdefault("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True")

import torch

from strowger_gateway.local_engine.config import DeviceName, DTypeName
from strowger_gateway.schemas.errors import InvalidConfig

BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""CPU features (/proc/cpuinfo) with which bfloat16 is faster than float32."""

DTYPES: dict[DTypeName, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Available(Struct, frozen=True, kw_only=True):
    """The devices of this machine. Each reason is "" if the device can be used."""

    npu: str
    cuda: str
    cpu_bfloat16: bool


def probe() -> Available:
    """Detect the devices of this machine; imports torch_npu if it is installed."""
    return Available(
        npu=_npu_problem(),
        cuda="" if torch.cuda.is_available() else "torch finds no CUDA device",
        cpu_bfloat16=_cpu_has_bfloat16(Path("/proc/cpuinfo")),
    )


def choose_device(wanted: DeviceName, available: Available) -> str:
    """Resolve `auto` to npu, cuda or cpu. Raises InvalidConfig for a missing device."""
    problems = {"npu": available.npu, "cuda": available.cuda, "cpu": ""}
    if wanted == "auto":
        return next(name for name, problem in problems.items() if not problem)
    if problems[wanted]:
        raise InvalidConfig((f"engine.device: {wanted} cannot be used: {problems[wanted]}",))
    return wanted


def choose_dtype(wanted: DTypeName, device: str, available: Available) -> torch.dtype:
    """Resolve `auto` to bfloat16, or to float32 on a CPU that emulates bfloat16."""
    if wanted != "auto":
        return DTYPES[wanted]
    slow = device == "cpu" and not available.cpu_bfloat16
    return torch.float32 if slow else torch.bfloat16


def free_bytes(device: str) -> int:
    """Return the memory available for new tensors on the device now, in bytes."""
    if device == "cpu":
        return _available_memory(Path("/proc/meminfo"))
    free, _ = torch.get_device_module(device).mem_get_info()
    return int(free)


def total_bytes(device: str) -> int:
    """Return all memory of the device, bytes; on a CPU with swap, within a container's limit."""
    if device != "cpu":
        _, total = torch.get_device_module(device).mem_get_info()
        return int(total)
    whole = _meminfo(Path("/proc/meminfo"), "MemTotal", "SwapTotal") or 1 << 62
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else ""
    return min(whole, int(text)) if text.isdigit() else whole


def _npu_problem() -> str:
    if find_spec("torch_npu") is None:
        return "torch-npu is not installed"
    try:
        import torch_npu  # noqa: F401  # pyright: ignore
    except (ImportError, OSError) as exc:
        return f"torch-npu is installed but CANN's libraries are missing: {exc}"
    except RuntimeError as exc:
        return f"torch-npu cannot start: {exc}"
    if not torch.get_device_module("npu").is_available():
        return "torch-npu is installed but finds no NPU"
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
    """Return Linux's MemAvailable in bytes; 4 GiB if it cannot be read."""
    return _meminfo(meminfo, "MemAvailable") or 4 << 30


def _meminfo(meminfo: Path, *wanted: str) -> int:
    """Return the sum of these fields in bytes; 0 if none can be read."""
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    found = (line.partition(":") for line in lines)
    return sum(int(value.split()[0]) * 1024 for name, _, value in found if name in wanted)
