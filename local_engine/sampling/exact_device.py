"""Where the sampler computes in 64 bits: on the logits' device, or on the host if it cannot.

The cores of an NPU have no float64. There the device finds the candidates in float32, the host
draws from these few numbers with the same operations as for logits of the CPU, and the same logits
give the same tokens.
"""

import torch
from torch import Tensor

_HOST = torch.device("cpu")
_WITHOUT_FLOAT64 = frozenset({"npu"})


def exact_device(device: torch.device) -> torch.device:
    """Return the device that computes in float64 for logits on `device`."""
    return _HOST if device.type in _WITHOUT_FLOAT64 else device


def at(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device; itself if it is there."""
    return tensor if tensor.device == device else tensor.to(device)


def rows_at(rows: Tensor | None, device: torch.device) -> Tensor | None:
    """`at` for places in the batch; `None` is the whole batch on any device."""
    return None if rows is None else at(rows, device)


def doubles(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the numbers in float64 on a device from `exact_device`: moved first, then widened."""
    return at(tensor, device).to(torch.float64)
