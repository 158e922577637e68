"""Fused kernels of Ascend NPUs in place of torch's, by torch-npu 2.13.

https://gitcode.com/Ascend/op-plugin documents each one. Cube units need sixteen bits: float32
models keep torch's attention.
"""

from collections.abc import Iterable
from functools import partial
from typing import Protocol

import torch
from msgspec.structs import replace
from torch import Tensor

from local_engine.ops import kernels as plain
from local_engine.ops.attention import AttentionParams
from local_engine.ops.experts import by_expert
from local_engine.ops.kernels import TORCH
from local_engine.ops.paged_cache import (
    PAGE,
    PLAIN,
    WIDTH,
    Attend,
    AttentionReach,
    Tables,
    Write,
    paged,
    write_by_index,
)
from local_engine.ops.self_test import SMALL, Offer, Shape, TrialSizes, attention_pairs, noise

MASK = 2048
"""Side of the triangular mask that sparse mode 3 requires for all lengths."""

CAUSAL = 3
"""sparse_mode: the last query sees the last key; each earlier query sees one key less."""

BAND = 4
"""sparse_mode: the same, and a query sees only `pre_tokens` keys before its own. Whether those
count its own is not documented, so both are tried."""

UNPADDED = 64
"""A head width that newer versions of CANN take as it is; others pad it."""

EVERYTHING = 2**31 - 1
"""pre_tokens and next_tokens without a band."""


class TorchNPU(Protocol):
    """The used functions of the module torch_npu; not every version has all of them."""

    def npu_rms_norm(
        self, x: Tensor, gamma: Tensor, epsilon: float, /
    ) -> tuple[Tensor, Tensor]: ...

    def npu_add_rms_norm(
        self, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float, /
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    def npu_rotary_mul(self, x: Tensor, cos: Tensor, sin: Tensor, /) -> Tensor: ...

    def npu_swiglu(self, x: Tensor, /, dim: int) -> Tensor: ...

    def npu_scatter_pa_kv_cache(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        /,
        *,
        cache_mode: str,
    ) -> None: ...

    def npu_fused_infer_attention_score(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        /,
        *,
        atten_mask: Tensor,
        actual_seq_lengths: list[int],
        actual_seq_lengths_kv: list[int],
        block_table: Tensor,
        num_heads: int,
        scale: float,
        input_layout: str,
        num_key_value_heads: int,
        sparse_mode: int,
        pre_tokens: int,
        next_tokens: int,
        block_size: int,
    ) -> tuple[Tensor, Tensor]: ...

    def npu_fused_infer_attention_score_v2(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        /,
        *,
        atten_mask: Tensor,
        actual_seq_qlen: list[int],
        actual_seq_kvlen: list[int],
        block_table: Tensor,
        num_query_heads: int,
        num_key_value_heads: int,
        softmax_scale: float,
        input_layout: str,
        sparse_mode: int,
        pre_tokens: int,
        next_tokens: int,
        block_size: int,
        learnable_sink: Tensor | None,
    ) -> tuple[Tensor, Tensor]: ...

    def npu_grouped_matmul(
        self,
        x: list[Tensor],
        weight: list[Tensor],
        /,
        *,
        group_list: Tensor,
        split_item: int,
        group_type: int,
        group_list_type: int,
    ) -> list[Tensor]: ...


class NPUOps:
    """The kernels with the signatures of `Kernels`' fields."""

    def __init__(self, vendor: TorchNPU, device: str) -> None:
        """device: of the tensors; "npu", or another one in tests."""
        self._vendor = vendor
        ones = torch.ones(MASK, MASK, dtype=torch.bool, device=device)
        self._mask = ones.triu(1)

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._vendor.npu_rms_norm(x.contiguous(), weight, eps)[0]

    def add_norm(
        self, x: Tensor, branch: Tensor, weight: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        normed, _, total = self._vendor.npu_add_rms_norm(x, branch, weight, eps)
        return normed, total

    def prepare(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return cos[None, :, None], sin[None, :, None]

    def rotate(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate in layout BSND with one batch: the packed tokens are its S."""
        return self._vendor.npu_rotary_mul(heads.unsqueeze(0).contiguous(), cos, sin)[0]

    def swiglu(self, gate_up: Tensor) -> Tensor:
        return self._vendor.npu_swiglu(gate_up, dim=-1)

    def grouped(self, rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
        """Groups are cut from the rows (type 0), their ends given (list type 0), one result (3)."""
        return self._vendor.npu_grouped_matmul(
            [rows], [weights], group_list=ends, split_item=3, group_type=0, group_list_type=0
        )[0]

    def write(
        self, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor
    ) -> None:
        self._vendor.npu_scatter_pa_kv_cache(
            key.contiguous(), value.contiguous(), keys, values, slots, cache_mode="Norm"
        )

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        tables: Tables,
        params: AttentionParams,
        *,
        shift: int = 0,
    ) -> Tensor:
        """shift: what is added to a window to get `pre_tokens`."""
        window = params.window
        return self._vendor.npu_fused_infer_attention_score(
            query,
            keys.view(*keys.shape[:2], -1),
            values.view(*values.shape[:2], -1),
            atten_mask=self._mask,
            actual_seq_lengths=tables.ends,
            actual_seq_lengths_kv=tables.keys,
            block_table=tables.pages,
            num_heads=query.shape[1],
            scale=params.scale,
            input_layout="TND",
            num_key_value_heads=keys.shape[2],
            sparse_mode=BAND if window else CAUSAL,
            pre_tokens=window + shift if window else EVERYTHING,
            next_tokens=0 if window else EVERYTHING,
            block_size=PAGE,
        )[0]

    def attend_v2(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        tables: Tables,
        params: AttentionParams,
        *,
        shift: int = 0,
    ) -> Tensor:
        """shift: as in `attend`. Sinks are possible here."""
        window = params.window
        return self._vendor.npu_fused_infer_attention_score_v2(
            query,
            keys.view(*keys.shape[:2], -1),
            values.view(*values.shape[:2], -1),
            atten_mask=self._mask,
            actual_seq_qlen=tables.ends,
            actual_seq_kvlen=tables.keys,
            block_table=tables.pages,
            num_query_heads=query.shape[1],
            num_key_value_heads=keys.shape[2],
            softmax_scale=params.scale,
            input_layout="TND",
            sparse_mode=BAND if window else CAUSAL,
            pre_tokens=window + shift if window else EVERYTHING,
            next_tokens=0 if window else EVERYTHING,
            block_size=PAGE,
            learnable_sink=params.sinks,
        )[0]


def npu_offers(
    vendor: TorchNPU,
    shape: Shape,
    dtype: torch.dtype,
    device: str = "npu",
    sizes: TrialSizes = SMALL,
) -> tuple[Offer, ...]:
    """Return the kernels that torch-npu may have for a model of this shape."""
    ops = NPUOps(vendor, device)
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
