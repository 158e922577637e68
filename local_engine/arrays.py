"""Tensors of requests and answers as torch's, and back."""

import torch
from torch import Tensor

from schemas import tensors
from schemas.errors import InvalidRequest

FLOATS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def floats(name: str, tensor: tensors.Tensor, shape: tuple[int, ...]) -> Tensor:
    """The values of a request's field as float32 of `shape`; leading sides of 1 may be there.

    -1 in `shape` is any size. Raises InvalidRequest naming the field for another shape, another
    kind of number, NaN and +inf.
    """
    found = tensor.shape
    while len(found) > len(shape) and found[0] == 1:
        found = found[1:]
    fits = len(found) == len(shape) and all(
        wanted in {-1, side} for wanted, side in zip(shape, found, strict=True)
    )
    if not fits or tensor.dtype not in FLOATS:
        wanted = ["any" if side == -1 else side for side in shape]
        raise InvalidRequest(
            f"{name}: {tensor.dtype} {list(tensor.shape)} must be float32, float16 or bfloat16 "
            f"of shape {wanted}",
            param=name,
        )
    values = torch.frombuffer(bytearray(tensor.data), dtype=FLOATS[tensor.dtype])
    values = values.to(torch.float32).reshape(found)
    if bool((values.isnan() | values.isposinf()).any()):
        raise InvalidRequest(f"{name}: every value must be a number or -inf", param=name)
    return values


def packed(values: Tensor) -> tensors.Tensor:
    """A float32 tensor for an answer."""
    array = values.detach().to("cpu", torch.float32).contiguous().numpy()
    return tensors.Tensor(dtype="float32", shape=tuple(values.shape), data=array.tobytes())
