"""Runs triton_programs.py, and offers it where Triton is installed."""

from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import AttentionParams
from strowger_gateway.local_engine.ops.page_table import PageRows

LEAST_ROWS = 16
"""Smallest side of a product of matrices in Triton."""


class Program(Protocol):
    """A compiled program; indexed by the number of its instances along up to three axes."""

    def __getitem__(self, grid: tuple[int, ...], /) -> "Launch": ...


class Launch(Protocol):
    def __call__(self, *args: Tensor | float, **constants: float) -> object: ...


class Programs(Protocol):
    """The module triton_programs."""

    attend_pages: Program
    join_parts: Program
    add_and_norm: Program
    gate: Program
    finish_heads: Program


def load_programs() -> Programs:
    """Raises ImportError without Triton."""
    return cast(Programs, import_module("strowger_gateway.local_engine.ops.triton_programs"))


class TritonAttention:
    """Attention of one query per sequence over page tables; a `Paged`."""

    def __init__(self, programs: Programs, page: int) -> None:
        self._programs = programs
        self._page = page

    def __call__(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        rows: PageRows,
        params: AttentionParams,
        splits: int = 0,
    ) -> Tensor:
        """splits: 0 is `splits_of`."""
        batch, heads, width = query.shape
        kv_heads = keys.shape[1]
        if query.stride(2) != 1:
            query = query.contiguous()
        splits = splits or splits_of(batch * kv_heads)
        padded = max(LEAST_ROWS, power_of_two(width))
        out = torch.empty(batch, heads, width, dtype=query.dtype, device=query.device)
        parts, state = out, rows.used
        if splits > 1:
            parts = torch.empty(
                batch, heads, splits, width, dtype=torch.float32, device=query.device
            )
            state = torch.empty(batch, heads, splits, 2, dtype=torch.float32, device=query.device)
        self._programs.attend_pages[batch, kv_heads, splits](
            query,
            keys,
            values,
            rows.table,
            rows.seats,
            rows.used,
            rows.used if params.sinks is None else params.sinks,
            parts,
            state,
            params.scale,
            params.softcap or 1.0,
            params.window,
            query.stride(0),
            query.stride(1),
            rows.table.shape[1],
            kv_heads=kv_heads,
            group=heads // kv_heads,
            group_padded=max(LEAST_ROWS, power_of_two(heads // kv_heads)),
            width=width,
            width_padded=padded,
            page=self._page,
            # Keys and values of two blocks fit the shared memory of every GPU with bfloat16.
            block=64 if padded <= 128 else 32,
            splits=splits,
            capped=params.softcap is not None,
            sunk=params.sinks is not None,
            num_warps=4,
            num_stages=2,
        )
        if splits > 1:
            self._programs.join_parts[(batch * heads,)](
                parts, state, out, width=width, width_padded=padded, splits=splits, num_warps=4
            )
        return out


def splits_of(pairs: int) -> int:
    """Return how many parts keep a large GPU busy. pairs: sequences times key/value heads.

    It depends on the batch alone, so that a captured step remains valid as sequences grow; parts
    without keys end at once. There are few values, because each is compiled.
    """
    if pairs < 8:
        return 64
    if pairs < 64:
        return 16
    return 4 if pairs < 1024 else 1


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less."""
    return 1 << (number - 1).bit_length()
