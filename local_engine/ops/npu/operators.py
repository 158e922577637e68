"""Fused kernels of Ascend NPUs in place of torch's, by torch-npu 2.13.

https://gitcode.com/Ascend/op-plugin documents each one. Cube units need sixteen bits: float32
models keep torch's attention.
"""

from collections.abc import Callable
from typing import Protocol, cast

import torch
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import AttentionParams
from strowger_gateway.local_engine.ops.npu.graphs import AttentionTasks, FusedAttention
from strowger_gateway.local_engine.ops.npu.paged_cache import PAGE, Tables

MASK = 2048
"""Side of the triangular mask that sparse mode 3 requires for all lengths."""

CAUSAL = 3
"""sparse_mode: the last query sees the last key; each earlier query sees one key less."""

BAND = 4
"""sparse_mode: the same, and a query sees only `pre_tokens` keys before its own. Whether those
count its own is not documented, so both are tried."""

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

    @property
    def npu_fused_infer_attention_score(self) -> FusedAttention: ...

    @property
    def npu_fused_infer_attention_score_v2(self) -> FusedAttention: ...

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

    def __init__(self, vendor: TorchNPU, device: str, tasks: AttentionTasks | None = None) -> None:
        """device: of the tensors. tasks: records the attention of steps that are captured."""
        self._vendor = vendor
        self._tasks = tasks
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
        arguments: dict[str, object] = {
            **self._shared(tables, params, shift),
            "actual_seq_lengths": tables.ends,
            "num_heads": query.shape[1],
            "num_key_value_heads": keys.shape[2],
            "scale": params.scale,
        }
        return self._fused("", "actual_seq_lengths_kv", (query, keys, values), tables, arguments)

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
        arguments: dict[str, object] = {
            **self._shared(tables, params, shift),
            "actual_seq_qlen": tables.ends,
            "num_query_heads": query.shape[1],
            "num_key_value_heads": keys.shape[2],
            "softmax_scale": params.scale,
            "learnable_sink": params.sinks,
        }
        return self._fused("_v2", "actual_seq_kvlen", (query, keys, values), tables, arguments)

    def _shared(self, tables: Tables, params: AttentionParams, shift: int) -> dict[str, object]:
        """Return the arguments that both versions call the same."""
        window = params.window
        return {
            "atten_mask": self._mask,
            "block_table": tables.pages,
            "input_layout": "TND",
            "sparse_mode": BAND if window else CAUSAL,
            "pre_tokens": window + shift if window else EVERYTHING,
            "next_tokens": 0 if window else EVERYTHING,
            "block_size": PAGE,
        }

    def _fused(
        self,
        version: str,
        lengths: str,
        tensors: tuple[Tensor, Tensor, Tensor],
        tables: Tables,
        arguments: dict[str, object],
    ) -> Tensor:
        """Call a version of the attention, or record the call. lengths: its name for keys."""
        query, keys, values = tensors
        given = query, keys.view(*keys.shape[:2], -1), values.view(*values.shape[:2], -1)
        name = f"npu_fused_infer_attention_score{version}"
        operator = cast(FusedAttention, getattr(self._vendor, name))
        if self._tasks is None or not self._tasks.recording:
            return operator(*given, **arguments, **{lengths: tables.keys})[0]
        workspace = cast(
            "Callable[..., Tensor]", getattr(self._vendor, f"_{name}_get_max_workspace")
        )
        return self._tasks.call(operator, workspace, given, lengths, tables.keys, arguments)
