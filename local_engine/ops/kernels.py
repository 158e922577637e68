"""The operations that a device may do in one kernel of its own, and torch's form of each.

A `Kernels` is settled once, when a model is loaded, and the forward pass calls what it holds.
Letters: T packed tokens, E hidden width, N heads, D head width, S cache slots.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor
from torch.nn.functional import silu

from local_engine.ops.attention import LayerCaches
from local_engine.ops.contiguous_cache import KeyValueCache
from local_engine.sampling.top_candidates import Finder

PAGE = 16
"""Tokens of a page of the cache where the kernels do not care."""


class Norm(Protocol):
    """Root mean square normalisation over the last dimension."""

    def __call__(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """x: [..., E], left untouched; weight: [E]. Returns the shape and dtype of `x`."""
        ...


class AddNorm(Protocol):
    """A residual connection and the normalisation that follows it."""

    def __call__(
        self, x: Tensor, branch: Tensor, weight: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """x, branch: [T, E]; `x` may be overwritten. Returns the normalised sum, and the sum."""
        ...


class Rotary(Protocol):
    """Rotary position embedding in halves: (a, b) becomes (a cos - b sin, b cos + a sin)."""

    def prepare(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Once a step: [T, D] angles of its tokens into the form that `rotate` wants."""
        ...

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """heads: [T, N, D], left untouched. cos, sin: as prepared. Returns [T, N, D]."""
        ...


class Kernels(Struct, frozen=True, kw_only=True, eq=False):
    """One operation a field.

    name:   for reports.
    page:   tokens of a page of the cache.
    swiglu: [..., 2F], the gate beside what it gates, to [..., F].
    cache:  keys and values for so many slots, a multiple of `page`, and the attention over them.
    best:   finds the sampler's candidates; `None` leaves that to torch.
    """

    name: str
    page: int
    norm: Norm
    add_norm: AddNorm
    rotary: Rotary
    swiglu: Callable[[Tensor], Tensor]
    cache: Callable[[int], LayerCaches]
    best: Finder | None = None


class HalfRotary:
    """Rotation by a product with a shifted copy; the sign lies in the sine."""

    def prepare(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        half = cos.shape[-1] // 2
        signed = torch.cat((-sin[:, :half], sin[:, half:]), dim=-1)
        return cos.unsqueeze(1), signed.unsqueeze(1)

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), sin)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `Norm`."""
    return torch.rms_norm(x, weight.shape, weight, eps)


def add_norm(x: Tensor, branch: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """See `AddNorm`; overwrites `x`."""
    x = x.add_(branch)
    return torch.rms_norm(x, weight.shape, weight, eps), x


def swiglu(gate_up: Tensor) -> Tensor:
    """See `Kernels`."""
    gate, up = gate_up.chunk(2, dim=-1)
    return silu(gate).mul_(up)


TORCH = Kernels(
    name="torch",
    page=PAGE,
    norm=norm,
    add_norm=add_norm,
    rotary=HalfRotary(),
    swiglu=swiglu,
    cache=KeyValueCache,
)
"""Runs on every device, and is what other kernels are compared with."""
