"""What the engine's process runs on, for those who watch it."""

import os
from pathlib import Path

import torch
from msgspec.structs import replace

from local_engine.config import EngineConfig
from local_engine.device import choose_device, choose_dtype, probe
from local_engine.protocol.stats import Machine


def machine(config: EngineConfig) -> Machine:
    """The device and number format that the configuration comes to here.

    Raises InvalidConfig for a device that isn't there.
    """
    available = probe()
    device = choose_device(config.device, available)
    dtype = choose_dtype(config.dtype, device, available)
    return Machine(device=device, dtype=str(dtype).removeprefix("torch."))


def as_of_now(machine: Machine) -> Machine:
    """With the numbers that may change."""
    return replace(
        machine, threads=torch.get_num_threads(), resident_bytes=_resident(Path("/proc/self/statm"))
    )


def _resident(statm: Path) -> int:
    """Linux's own count, bytes; 0 where it cannot be read."""
    if not statm.exists():
        return 0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
