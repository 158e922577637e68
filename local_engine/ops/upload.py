"""Copy a step's numbers to the device in one piece.

On a device each copy of a few numbers costs as much as a small kernel, and one from ordinary memory
also waits for the device. Page-locked memory is copied while the host goes on; the allocator keeps
it until the copy is done.
"""

import logging
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from strowger_gateway.local_engine.ops.device_faults import REFUSALS, first_line

_log: Final = logging.getLogger("strowger.engine")


class Upload:
    """Copies to one device; from page-locked memory until the device refuses to lock some."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._locked = self._device.type != "cpu"

    def __call__(self, numbers: Sequence[int]) -> Tensor:
        """Return [len(numbers)] int64 on the device."""
        if self._locked:
            try:
                host = torch.tensor(numbers, dtype=torch.int64, pin_memory=True)
                return host.to(self._device, non_blocking=True)
            except REFUSALS as exc:
                self._locked = False
                _log.info("no page-locked memory for %s: %s", self._device, first_line(exc))
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)
