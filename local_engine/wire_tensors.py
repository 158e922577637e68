"""Tensors of requests as torch's."""

import torch

from schemas.errors import InvalidRequest
from schemas.tensors import DType, Tensor

FLOATS: dict[DType, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}
INTEGERS: dict[DType, torch.dtype] = {"int32": torch.int32, "int64": torch.int64}


def floats(tensor: Tensor, field: str) -> torch.Tensor:
    """On the CPU, in the dtype and shape that it came in. Raises InvalidRequest naming `field`."""
    return _read(tensor, FLOATS, field)


def integers(tensor: Tensor, field: str) -> torch.Tensor:
    """int64, on the CPU. Raises InvalidRequest naming `field`."""
    return _read(tensor, INTEGERS, field).to(torch.int64)


def _read(tensor: Tensor, kinds: dict[DType, torch.dtype], field: str) -> torch.Tensor:
    kind = kinds.get(tensor.dtype)
    if kind is None:
        raise InvalidRequest(
            f"{field}: is {tensor.dtype}; expected {', '.join(kinds)}", param=field
        )
    if not tensor.data:
        return torch.empty(tensor.shape, dtype=kind)
    flat = torch.frombuffer(bytearray(tensor.data), dtype=kind)
    return flat.reshape(tensor.shape)
