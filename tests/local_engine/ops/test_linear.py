"""Reordered and fused linear layers compute what the plain ones did."""

# torch annotates manual_seed in part only:
# pyright: reportUnknownMemberType=false

import pytest
import torch
from torch import Tensor, nn

from strowger_gateway.local_engine.ops.linear import PackedLinear, Sibling, optimise


class Block(nn.Module):
    """The linear layers of a transformer layer."""

    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.q_proj = nn.Linear(32, 32, bias=bias)
        self.k_proj = nn.Linear(32, 16, bias=bias)
        self.v_proj = nn.Linear(32, 16, bias=bias)
        self.gate_proj = nn.Linear(32, 64, bias=bias)
        self.up_proj = nn.Linear(32, 64, bias=bias)
        self.down_proj = nn.Linear(64, 32, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.q_proj(x) + torch.cat([self.k_proj(x), self.v_proj(x)], -1)
        return self.down_proj(self.gate_proj(mixed).relu() * self.up_proj(mixed))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 8, 100])
def test_a_model_computes_the_same_afterwards(bias: bool, rows: int) -> None:
    torch.manual_seed(0)
    block = Block(bias=bias)
    x = torch.randn(1, rows, 32)
    with torch.no_grad():
        expected = block(x)

        changed = optimise(block)

        again = [block(x), block(x.clone())]
    assert changed == 5
    assert isinstance(block.q_proj, Sibling)
    for out in again:
        torch.testing.assert_close(out, expected)


def test_a_sibling_called_twice_or_out_of_order_computes_the_same() -> None:
    torch.manual_seed(0)
    block = Block(bias=False)
    x, other = torch.randn(1, 2, 32), torch.randn(1, 2, 32)
    with torch.no_grad():
        expected = [block.v_proj(x), block.v_proj(x), block.k_proj(other), block.q_proj(x)]
        optimise(block)

        out = [block.v_proj(x), block.v_proj(x), block.k_proj(other), block.q_proj(x)]

    for one, wanted in zip(out, expected, strict=True):
        torch.testing.assert_close(one, wanted)


def test_subclasses_of_a_linear_layer_keep_their_own_code() -> None:
    class Special(nn.Linear):
        pass

    model = nn.Sequential(Special(8, 16), nn.Linear(8, 16))

    optimise(model)

    assert type(model[0]) is Special
    assert isinstance(model[1], PackedLinear)
