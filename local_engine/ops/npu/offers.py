"""The kernels that torch-npu may have for a model, each with the trial that it must pass."""

from collections.abc import Iterable
from functools import partial

import torch
from msgspec.structs import replace
from torch import Tensor

from strowger_gateway.local_engine.ops import kernels as plain
from strowger_gateway.local_engine.ops.experts import by_expert
from strowger_gateway.local_engine.ops.kernels import TORCH
from strowger_gateway.local_engine.ops.npu.graphs import AttentionTasks
from strowger_gateway.local_engine.ops.npu.operators import NPUOps, TorchNPU
from strowger_gateway.local_engine.ops.npu.paged_cache import (
    PAGE,
    PLAIN,
    WIDTH,
    Attend,
    AttentionReach,
    Write,
    paged,
    write_by_index,
)
from strowger_gateway.local_engine.ops.self_test import (
    SMALL,
    Offer,
    Shape,
    TrialSizes,
    attention_pairs,
    noise,
)

UNPADDED = 64
"""A head width that newer versions of CANN take as it is; others pad it."""


def npu_offers(
    vendor: TorchNPU,
    shape: Shape,
    dtype: torch.dtype,
    device: str = "npu",
    sizes: TrialSizes = SMALL,
    tasks: AttentionTasks | None = None,
) -> tuple[Offer, ...]:
    """Return the kernels that torch-npu may have for a model of this shape.

    tasks: records the attention of steps that are captured.
    """
    ops = NPUOps(vendor, device, tasks)
    case = _Case(ops, shape, dtype, device, sizes)

    return (
        *_attention_offers(ops, shape, dtype, device, sizes),
        Offer(
            kernel="npu_rms_norm",
            role="norm",
            check=case.norm,
            install=lambda kernels: replace(kernels, norm=ops.norm),
        ),
        Offer(
            kernel="npu_add_rms_norm",
            role="add and norm",
            check=case.add_norm,
            install=lambda kernels: replace(kernels, add_norm=ops.add_norm),
        ),
        Offer(
            kernel="npu_rotary_mul",
            role="rotary embedding",
            check=case.rotary,
            install=lambda kernels: replace(kernels, rotary=ops),
        ),
        Offer(
            kernel="npu_grouped_matmul",
            role="experts",
            check=case.grouped,
            install=lambda kernels: replace(kernels, grouped=ops.grouped),
        ),
        Offer(
            kernel="npu_swiglu",
            role="swiglu",
            check=case.swiglu,
            install=lambda kernels: replace(kernels, swiglu=ops.swiglu),
        ),
    )


def _attention_offers(
    ops: NPUOps, shape: Shape, dtype: torch.dtype, device: str, sizes: TrialSizes
) -> tuple[Offer, ...]:
    """Return the alternatives: with the model's windows and sinks first, then plain layers only."""

    def offer(name: str, attend: Attend, write: Write, reach: AttentionReach) -> Offer:
        cache = paged(write, attend, reach)

        def check() -> Iterable[tuple[Tensor, Tensor]]:
            for window in (0, 7) if reach.windows else (0,):
                yield from attention_pairs(
                    cache,
                    shape,
                    PAGE,
                    dtype,
                    device,
                    window=window,
                    sinks=reach.sinks,
                    sizes=sizes,
                )

        return Offer(
            kernel=name,
            role="attention",
            check=check,
            install=lambda kernels: replace(kernels, cache=cache, page=PAGE),
        )

    fused, scattered = "npu_fused_infer_attention_score", " with npu_scatter_pa_kv_cache"
    kernels: tuple[tuple[str, Attend, Write, bool], ...] = (
        (f"{fused}_v2{scattered}", ops.attend_v2, ops.write, True),
        (f"{fused}{scattered}", ops.attend, ops.write, False),
        (f"{fused}_v2", ops.attend_v2, write_by_index, True),
        (fused, ops.attend, write_by_index, False),
    )
    offers: list[Offer] = []
    wanted = AttentionReach(windows=shape.window > 0, sinks=shape.sinks)
    for reach in dict.fromkeys((wanted, PLAIN)):
        for width in (shape.width, WIDTH) if shape.width == UNPADDED else (WIDTH,):
            for name, attend, write, sinks in kernels:
                if reach.sinks and not sinks:
                    continue
                wide = replace(reach, width=width)
                also = f"{name}, sinks" if reach.sinks else name
                also += f", heads of {width}" if width != WIDTH else ""
                if not reach.windows:
                    offers.append(offer(also, attend, write, wide))
                    continue
                for shift, tokens in ((-1, "W-1"), (0, "W")):
                    banded = partial(attend, shift=shift)
                    named = f"{also}, windows by pre_tokens={tokens}"
                    offers.append(offer(named, banded, write, wide))
    return tuple(offers)


class _Case:
    """Small inputs of a model's shape for each layer kernel, and torch's results."""

    def __init__(
        self, ops: NPUOps, shape: Shape, dtype: torch.dtype, device: str, sizes: TrialSizes
    ) -> None:
        self._rows = sizes.rows
        self._ops = ops
        self._shape = shape
        self._dtype = dtype
        self._device = device

    def norm(self) -> Iterable[tuple[Tensor, Tensor]]:
        """Check over the hidden width, and over a strided slice of heads."""
        for rows in self._rows:
            heads = self._heads(rows)[:, : self._shape.heads]
            for x in (self._noise(rows, self._shape.hidden), heads):
                weight = self._noise(x.shape[-1], seed=1)
                yield self._ops.norm(x, weight, 1e-6), plain.norm(x, weight, 1e-6)

    def add_norm(self) -> Iterable[tuple[Tensor, Tensor]]:
        weight = self._noise(self._shape.hidden, seed=2)
        for rows in self._rows:
            x, branch = (self._noise(rows, self._shape.hidden, seed=seed) for seed in (0, 1))
            ours = self._ops.add_norm(x.clone(), branch, weight, 1e-6)
            yield from zip(ours, plain.add_norm(x.clone(), branch, weight, 1e-6), strict=True)

    def rotary(self) -> Iterable[tuple[Tensor, Tensor]]:
        for rows in self._rows:
            heads = self._heads(rows)[:, : self._shape.heads + self._shape.kv_heads]
            places = torch.arange(rows, dtype=torch.float32)
            angles = places.outer(torch.linspace(1, 0.01, self._shape.width // 2))
            angles = torch.cat((angles, angles), dim=-1).to(self._device)
            cos, sin = angles.cos().to(self._dtype), angles.sin().to(self._dtype)
            ours = self._ops.rotate(heads, *self._ops.prepare(cos, sin))
            yield ours, TORCH.rotary.rotate(heads, *TORCH.rotary.prepare(cos, sin))

    def swiglu(self) -> Iterable[tuple[Tensor, Tensor]]:
        for rows in self._rows:
            x = self._noise(rows, 2 * self._shape.hidden)
            yield self._ops.swiglu(x), plain.swiglu(x.clone())

    def grouped(self) -> Iterable[tuple[Tensor, Tensor]]:
        """Check with experts that get no rows, one, and most."""
        width = self._shape.hidden
        weights = self._noise(4, width, 2 * width, seed=3)
        for rows in self._rows:
            x = self._noise(rows, width)
            for ends in ([0, min(1, rows), rows, rows], [0, 0, 0, rows]):
                places = torch.tensor(ends, device=self._device)
                yield self._ops.grouped(x, weights, places), by_expert(x, weights, places)

    def _heads(self, rows: int) -> Tensor:
        return self._noise(rows, self._shape.heads + 2 * self._shape.kv_heads, self._shape.width)

    def _noise(self, *shape: int, seed: int = 0) -> Tensor:
        return noise(*shape, like=self._dtype, device=self._device, seed=seed)
