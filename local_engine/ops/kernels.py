"""The operations that a device may have a fused kernel for, each with torch's implementation.

A `Kernels` is selected once, when a model is loaded; the forward pass calls its fields.
Letters: T packed tokens, E hidden width, N heads, D head width, S cache slots.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor
from torch.nn.functional import silu

from strowger_gateway.local_engine.ops.attention import LayerCaches
from strowger_gateway.local_engine.ops.contiguous_cache import KeyValueCache
from strowger_gateway.local_engine.ops.experts import GroupedProduct
from strowger_gateway.local_engine.sampling.top_candidates import Finder

PAGE = 16
"""Tokens per page of the cache, for kernels without a fixed page size."""


class Norm(Protocol):
    """Root mean square normalisation over the last dimension."""

    def __call__(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """x: [..., E], unchanged; weight: [E]. Returns the shape and dtype of `x`."""
        ...


class AddNorm(Protocol):
    """A residual connection and the normalisation that follows it."""

    def __call__(
        self, x: Tensor, branch: Tensor, weight: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """x, branch: [T, E]; `x` may be overwritten. Returns the normalised sum and the sum."""
        ...


class Rotary(Protocol):
    """Rotary position embedding in halves: (a, b) becomes (a cos - b sin, b cos + a sin)."""

    def prepare(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Convert the [T, D] angles of a step's tokens for `rotate`, once per step."""
        ...

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """heads: [T, N, D], unchanged. cos, sin: as prepared. Returns [T, N, D]."""
        ...


class NormParams(Struct, frozen=True, kw_only=True, eq=False):
    """Arguments of a normalisation. weight: of the width of what it normalises."""

    weight: Tensor
    eps: float


class Finish(Protocol):
    """All between a layer's joint projection and its attention, for a cache by slot."""

    def __call__(
        self,
        mixed: Tensor,
        cos: Tensor,
        sin: Tensor,
        norms: tuple[NormParams, NormParams] | None,
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor | None:
        """mixed: [T, N, D], the heads of queries, keys and values. cos, sin: [T, D] angles.

        norms: of queries and keys, before the rotation. keys, values: [S, K, D], written at the
        slots. Returns the rotated queries, [T, H, D]; `None` if its kernel refuses, and nothing is
        written then.
        """
        ...


class Kernels(Struct, frozen=True, kw_only=True, eq=False):
    """One operation per field.

    name:   for reports.
    page:   tokens per page of the cache.
    swiglu: [..., 2F], the gate next to the gated half, to [..., F].
    cache:  creates a key/value cache of the given slots, a multiple of `page`, with its attention.
    finish: what `norm`, `rotary` and a `FlashCache` do between projection and attention, in one;
            `None`: they do.
    best:   finds the sampler's candidates; `None`: torch does.
    grouped: the products of a mixture of experts; `None`: torch's, one by one.
    """

    name: str
    page: int
    norm: Norm
    add_norm: AddNorm
    rotary: Rotary
    swiglu: Callable[[Tensor], Tensor]
    cache: Callable[[int], LayerCaches]
    finish: Finish | None = None
    best: Finder | None = None
    grouped: GroupedProduct | None = None


class HalfRotary:
    """Rotation by a product with a shifted copy; the sine includes the sign."""

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
"""Return torch's kernels: they run on every device and are the reference for the others."""
