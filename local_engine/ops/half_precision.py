"""Float32 layers with weights stored as float16 where that is lossless.

A decoding step of few rows is bound by the memory bandwidth for its weights. On a CPU without
bfloat16 instructions arithmetic is float32, but most checkpoints contain bfloat16 numbers: these
have 8 significant bits, float16 has 11, so all but the smallest are stored exactly. FBGEMM reads
float16 weights and multiplies in float32 (https://github.com/pytorch/FBGEMM): 1.9 times as fast as
float32 weights at one row, 1.4 times at eight, no slower at 512. A matrix that would lose precision
keeps its format.
"""

from collections.abc import Callable
from functools import cache
from typing import Protocol, cast

import torch
from torch import Tensor, nn

LOSS = 2.0**-18
"""Allowed loss of a weight, relative to the largest one of its matrix: float16 has a coarser grid
below 2**-14; this is less than float32 loses in a long sum."""

ROWS_AT_ONCE = 4096

_UNIT = """
def linear(x, packed: __torch__.torch.classes.quantized.LinearPackedParamsBase):
    return torch.ops.quantized.linear_dynamic_fp16(x, packed)
"""


class HalfLinear(nn.Module):
    """One or several linear layers behind one float16 weight; made by `half_linear`."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight: [out, in] float32. Raises RuntimeError if FBGEMM is missing."""
        super().__init__()
        self._packed = cast(object, torch.ops.quantized.linear_prepack_fp16(weight, bias))
        self._multiply = _multiply()

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., in] float32 -> [..., out] float32."""
        return self._multiply(x, self._packed)


def half_linear(weight: Tensor, bias: Tensor | None) -> HalfLinear | None:
    """Return `None` if precision would be lost, or if the operators are missing or differ."""
    if weight.dtype != torch.float32 or weight.device.type != "cpu" or not _lossless(weight):
        return None
    sample = torch.linspace(-1, 1, 2 * weight.shape[1]).reshape(2, -1)
    try:
        half = HalfLinear(weight, bias)
        tried = half(sample)
    except (RuntimeError, AttributeError):
        return None
    expected = nn.functional.linear(sample, weight, bias)
    return half if torch.allclose(tried, expected, rtol=1e-4, atol=1e-4) else None


@cache
def _multiply() -> Callable[[Tensor, object], Tensor]:
    """Return the operator, as a compiled function if torch still supports that: a call from Python
    costs 19 µs through `torch.ops` and 5 µs compiled, and a step makes four per layer."""
    try:
        unit = cast(_Unit, torch.jit.CompilationUnit(_UNIT))  # pyright: ignore[reportPrivateImportUsage]  # missing in its stubs
    except (RuntimeError, AttributeError):
        return cast(Callable[[Tensor, object], Tensor], torch.ops.quantized.linear_dynamic_fp16)
    return unit.linear


class _Unit(Protocol):
    linear: Callable[[Tensor, object], Tensor]


def _lossless(weight: Tensor) -> bool:
    allowed = LOSS * float(weight.abs().max())
    parts = (weight[at : at + ROWS_AT_ONCE] for at in range(0, weight.shape[0], ROWS_AT_ONCE))
    return all(float((part - part.half().float()).abs().max()) <= allowed for part in parts)
