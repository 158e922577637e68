"""Weights that fit into sixteen bits are stored so, and nothing else changes."""

# torch annotates manual_seed in part only:
# pyright: reportUnknownMemberType=false

import pytest
import torch
from torch import Tensor, nn

from strowger_gateway.local_engine.ops.half_precision import HalfLinear, half_linear
from strowger_gateway.local_engine.ops.linear import optimise

needs_fbgemm = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this CPU has no FBGEMM"
)


def rounded(*shape: int) -> Tensor:
    """Return weights as in a bfloat16 checkpoint."""
    torch.manual_seed(0)
    return (torch.randn(shape) * 0.02).bfloat16().float()


@needs_fbgemm
@pytest.mark.parametrize("rows", [1, 3, 8, 100])
@pytest.mark.parametrize("bias", [True, False])
def test_a_bfloat16_checkpoint_is_multiplied_as_exactly_as_before(rows: int, bias: bool) -> None:
    weight, offset = rounded(96, 64), torch.randn(96) if bias else None
    x = torch.randn(1, rows, 64)
    exact = x.double() @ weight.double().T + (0.0 if offset is None else offset.double())

    half = half_linear(weight, offset)

    assert half is not None
    assert half(x).dtype == torch.float32
    torch.testing.assert_close(half(x).double(), exact, rtol=1e-5, atol=1e-6)


@needs_fbgemm
def test_a_checkpoint_of_sixteen_bits_is_stored_in_sixteen() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.Linear(96, 32, bias=False)).bfloat16().float()
    x = torch.randn(5, 64)
    with torch.no_grad():
        expected = model(x)

        optimise(model)

        assert all(isinstance(layer, HalfLinear) for layer in model)
        torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize(
    "weight",
    [
        torch.full((8, 8), 1.0 + 2.0**-12),
        torch.full((8, 8), 1e6),
        torch.full((8, 8), 1e-6),
        torch.ones(8, 8, dtype=torch.bfloat16),
    ],
    ids=["finer than float16", "larger than float16", "too small for float16", "not float32"],
)
def test_a_matrix_that_would_lose_precision_keeps_its_format(weight: Tensor) -> None:
    assert half_linear(weight, None) is None
