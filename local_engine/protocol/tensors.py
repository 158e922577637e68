"""Convert tensors of requests and answers to torch's, and back."""

import torch

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.tensors import DType, Tensor

FLOATS: dict[DType, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}
INTEGERS: dict[DType, torch.dtype] = {"int32": torch.int32, "int64": torch.int64}


def floats(tensor: Tensor, field: str) -> torch.Tensor:
    """Return the tensor on the CPU, dtype and shape unchanged.

    Raises InvalidRequest naming `field`.
    """
    return _read(tensor, FLOATS, field)


def integers(tensor: Tensor, field: str) -> torch.Tensor:
    """Return the tensor as int64 on the CPU. Raises InvalidRequest naming `field`."""
    return _read(tensor, INTEGERS, field).to(torch.int64)


def shaped(tensor: Tensor, field: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor as float32 of this shape on the CPU; leading dimensions of 1 are dropped.

    Raises InvalidRequest naming the field for another shape, another dtype, NaN and +inf.
    """
    values = floats(tensor, field).to(torch.float32)
    while values.dim() > len(shape) and values.shape[0] == 1:
        values = values[0]
    if values.shape != shape:
        raise InvalidRequest(
            f"{field}: shape {list(tensor.shape)} must be {list(shape)}", param=field
        )
    if bool((values.isnan() | values.isposinf()).any()):
        raise InvalidRequest(f"{field}: every value must be a number or -inf", param=field)
    return values


def packed(values: torch.Tensor) -> Tensor:
    """Return a float32 tensor for an answer."""
    array = values.detach().to("cpu", torch.float32).contiguous().numpy()
    return Tensor(dtype="float32", shape=tuple(values.shape), data=array.tobytes())


def _read(tensor: Tensor, kinds: dict[DType, torch.dtype], field: str) -> torch.Tensor:
    kind = kinds.get(tensor.dtype)
    if kind is None:
        raise InvalidRequest(
            f"{field}: dtype {tensor.dtype} is not supported; send {', '.join(kinds)}", param=field
        )
    if not tensor.data:
        return torch.empty(tensor.shape, dtype=kind)
    flat = torch.frombuffer(bytearray(tensor.data), dtype=kind)
    return flat.reshape(tensor.shape)
