"""Weights laid out for the CPU's matrix kernels, and sibling projections computed as one.

oneDNN multiplies faster with weights that it has reordered once: in bfloat16 1.3 to 1.5 times, in
float32 1.2 to 1.8 times at 2 to 16 rows. PyTorch's own compiler does the same when it freezes a
model. The operators are not public, so each use is tried first and left out where it fails or
gives other numbers.
"""

from collections.abc import Sequence
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from local_engine.ops.half_precision import HalfLinear, half_linear

SIBLINGS: tuple[tuple[str, ...], ...] = (
    ("q_proj", "k_proj", "v_proj"),
    ("gate_proj", "up_proj"),
)
"""Projections of one input, under the names that transformers gives them."""

EXPECTED_ROWS = 8
"""Rows a step that the layout is made for; it serves any number."""


WIDE = 2
"""In float32 only matrices with so many times more outputs than inputs gain from the layout at
several rows without losing at one, where the operator's own 30 µs count."""


@torch.no_grad()
def optimise(model: nn.Module) -> int:
    """Joins sibling projections and, on the CPU, reorders weights; returns how many layers changed.

    Call it once, in evaluation mode, before the first forward pass. Subclasses of nn.Linear keep
    their own code.
    """
    count = 0
    for parent in list(model.modules()):
        for names in SIBLINGS:
            children = [getattr(parent, name, None) for name in names]
            if all(type(child) is nn.Linear for child in children):
                count += _fuse(parent, names, cast(list[nn.Linear], children))
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and (packed := _pack(child.weight, _bias(child))):
                setattr(parent, name, packed)
                count += 1
    return count


class PackedLinear(nn.Module):
    """One or several linear layers behind one reordered weight."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight: [out, in]. Raises RuntimeError where oneDNN cannot take it."""
        super().__init__()
        self._weight = cast(Tensor, torch.ops.mkldnn._reorder_linear_weight(weight, EXPECTED_ROWS))
        self._bias = bias

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., out]."""
        return cast(
            Tensor,
            torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], ""),
        )


class PlainLinear(nn.Module):
    """Several linear layers behind one weight, laid out as it came."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self._weight = weight
        self._bias = bias

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., out]."""
        return nn.functional.linear(x, self._weight, self._bias)


class Linear(Protocol):
    """A linear layer, whatever its weights look like."""

    def __call__(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., out], contiguous and nobody else's."""
        ...


class _Shared:
    """The last input of some siblings, and what is left of its outputs."""

    def __init__(self, linear: Linear, sizes: Sequence[int]) -> None:
        self.linear = linear
        self._sizes = list(sizes)
        self._input: Tensor | None = None
        self._outputs: list[Tensor | None] = []

    def take(self, place: int, x: Tensor) -> Tensor:
        """The output of sibling `place`; the first one asked computes them all."""
        found = self._outputs[place] if x is self._input else None
        if found is None:
            self._outputs = [*torch.split(self.linear(x), self._sizes, dim=-1)]
            self._input, found = x, self._outputs[place]
            assert found is not None
        self._outputs[place] = None
        if not any(output is not None for output in self._outputs):
            self._input = None
        return found


class Sibling(nn.Module):
    """Stands where one of some sibling projections stood, the `place`-th of them."""

    def __init__(self, shared: _Shared, place: int) -> None:
        super().__init__()
        self.shared = shared
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., this sibling's out], a view."""
        return self.shared.take(self.place, x)


def shared_linear(module: nn.Module) -> Linear:
    """What computes all outputs of the siblings of `module`, side by side in their order.

    Raises LookupError if `module` has not been joined with its siblings.
    """
    match module:
        case Sibling():
            return module.shared.linear
        case _:
            raise LookupError(f"{type(module).__name__} stands alone")


def _fuse(parent: nn.Module, names: Sequence[str], children: Sequence[nn.Linear]) -> int:
    """Siblings read one input, all or none with a bias; else they stay apart."""
    biases = [bias for child in children if (bias := _bias(child)) is not None]
    if len({child.in_features for child in children}) != 1 or len(biases) not in {0, len(children)}:
        return 0
    weight = torch.cat([child.weight.detach() for child in children])
    bias = torch.cat(biases) if biases else None
    linear = _pack(weight, bias) or PlainLinear(weight, bias)
    shared = _Shared(linear, [child.out_features for child in children])
    for place, name in enumerate(names):
        setattr(parent, name, Sibling(shared, place))
    return len(names)


def _bias(linear: nn.Linear) -> Tensor | None:
    """torch declares it a Parameter, and sets `None` where there is none."""
    return cast(Tensor | None, linear.bias)


def _pack(weight: Tensor, bias: Tensor | None) -> HalfLinear | PackedLinear | None:
    """`None` where it would not pay, or where the operators are missing, refuse this dtype or
    device, or calculate differently."""
    if weight.device.type != "cpu":
        return None
    if half := half_linear(weight, bias):
        return half
    if weight.dtype == torch.float32 and weight.shape[0] < WIDE * weight.shape[1]:
        return None
    sample = torch.linspace(-1, 1, 2 * weight.shape[1]).to(weight.dtype).reshape(2, -1)
    try:
        packed = PackedLinear(weight, bias)
        tried = packed(sample)
    except (RuntimeError, AttributeError):
        return None
    expected = nn.functional.linear(sample, weight, bias)
    close = torch.allclose(tried.float(), expected.float(), rtol=1e-2, atol=1e-3)
    return packed if close else None
