"""The device and memory of the engine's process, for monitoring."""

import os
import socket
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from msgspec.structs import replace

from strowger_gateway.local_engine.config import EngineConfig
from strowger_gateway.local_engine.device import choose_device, choose_dtype, probe
from strowger_gateway.local_engine.protocol.stats import Machine


def machine(config: EngineConfig) -> Machine:
    """Return the device and number format that the configuration resolves to here.

    Raises InvalidConfig for a missing device.
    """
    available = probe()
    device = choose_device(config.device, available)
    dtype = choose_dtype(config.dtype, device, available)
    return Machine(
        device=device,
        dtype=str(dtype).removeprefix("torch."),
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=time.time(),
    )


def as_of_now(machine: Machine) -> Machine:
    """Return `machine` with its current threads and memory."""
    return replace(
        machine, threads=torch.get_num_threads(), resident_bytes=_resident(Path("/proc/self/statm"))
    )


@cache
def release() -> str:
    """Return the version of the installed package; "" in a bare checkout."""
    try:
        return version("strowger-gateway")
    except PackageNotFoundError:
        return ""


def _resident(statm: Path) -> int:
    """Return Linux's count in bytes; 0 if it cannot be read."""
    if not statm.exists():
        return 0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
