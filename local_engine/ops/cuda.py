"""Attention on CUDA, over a cache that is laid out by slot.

Sequences that decode one token are read through a page table, where a kernel for that is known
(`Paged`). The others are read by torch's `aten::_flash_attention_forward`, which takes packed
queries, and for each sequence the start and number of its keys: sequences whose pages are
contiguous are read in place, and the keys of the others are gathered first. The operator is not
public: it is compared with torch's attention before it is used (cuda_offers.py).
Letters as in attention.py; B sequences.
"""

from itertools import groupby
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.ops.attention import (
    AttentionParams,
    Plan,
    Share,
    attend_rows,
    read_rows,
)
from strowger_gateway.local_engine.ops.device_faults import REFUSALS
from strowger_gateway.local_engine.ops.kernel_guards import Guard, in_use, refused
from strowger_gateway.local_engine.ops.kernels import PAGE
from strowger_gateway.local_engine.ops.page_table import SEATS, PageRows, PageTable, page_rows

HALVES = (torch.float16, torch.bfloat16)
WIDEST = 256
"""Largest head width of the kernel."""


class Flash(Protocol):
    """`torch.ops.aten._flash_attention_forward`; returns the [T, H, D] output first."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cum_seq_q: Tensor,
        cum_seq_k: Tensor,
        max_q: int,
        max_k: int,
        dropout_p: float,
        is_causal: bool,
        return_debug_mask: bool,
        *,
        scale: float,
        window_size_left: int | None,
        window_size_right: int | None,
        seqused_k: Tensor,
    ) -> tuple[Tensor, ...]: ...


class Paged(Protocol):
    """Attention of one query per sequence, through a page table.

    query: [B, H, D]. keys, values: [S, K, D]. Returns [B, H, D]. Supports windows, soft caps and
    sinks.
    splits: parts into which each sequence's keys are divided, a power of two; 0: by the batch.
    """

    def __call__(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        rows: PageRows,
        params: AttentionParams,
        splits: int = 0,
    ) -> Tensor: ...


class Offsets(Struct, frozen=True, kw_only=True, eq=False):
    """Sequences for the flash operator.

    ends:   [B + 1] int32, 0 and the end of each one's packed tokens.
    starts: [B + 1] int32, the slot of each one's first key; the last number is not read.
    used:   [B] int32, its number of keys.
    most_rows, most_keys: the maximum over the sequences.
    gather: [all keys] int64 if a sequence is not contiguous: the slots of all keys, sequence by
            sequence; `starts` then indexes into these.
    """

    ends: Tensor
    starts: Tensor
    used: Tensor
    most_rows: int
    most_keys: int
    gather: Tensor | None


class StepPart(Struct, frozen=True, kw_only=True, eq=False):
    """Rows `begin` … `end - 1` of a step, and how their sequences are read."""

    begin: int
    end: int
    read: PageRows | Offsets


class FlashCache:
    """[S, K, D] keys and values per layer, allocated when the layer first uses them."""

    def __init__(
        self, slots: int, *, flash: Flash, paged: Paged | None = None, page: int = PAGE
    ) -> None:
        self._slots = slots
        self._flash = flash
        self._paged = paged
        self._page = page
        self.guard: Guard | None = None
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._parts: tuple[Plan, tuple[StepPart, ...]] | None = None
        self._table: PageTable | None = None

    def of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._of(layer, key, value)
        return keys.transpose(0, 1), values.transpose(0, 1)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layer: int,
        plan: Plan,
        params: AttentionParams,
    ) -> Tensor:
        """Use torch's other operations for wide heads, float32, chunks that hide keys, and soft
        caps and sinks in steps that are more than decoding."""
        if query.shape[2] > WIDEST or query.dtype not in HALVES:
            return attend_rows(query, key, value, layer, plan, params)
        parts = self._parts_of(plan)
        special = not params.plain and any(isinstance(part.read, Offsets) for part in parts)
        if special or params.chunked(plan.shares):
            return attend_rows(query, key, value, layer, plan, params)
        self.write(layer, key, value, plan.slots)
        return self.attend_stored(query, layer, plan, params)

    def write(self, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> None:
        for kept, new in zip(self._of(layer, key, value), (key, value), strict=True):
            kept.index_copy_(0, slots, new)

    def stored(self, layer: int, key: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer's [S, K, D] keys and values, for `attend_stored`. key: as in `of`."""
        return self._of(layer, key, key)

    def attend_stored(
        self, query: Tensor, layer: int, plan: Plan, params: AttentionParams
    ) -> Tensor:
        """`attend` once the step's keys and values are in `stored`.

        Only for plain parameters, HALVES, and heads up to WIDEST.
        """
        keys, values = self._layers[layer]
        if in_use(self.guard):
            try:
                outs = [
                    self._attend(query[part.begin : part.end], keys, values, part.read, params)
                    for part in self._parts_of(plan)
                ]
                return outs[0] if len(outs) == 1 else torch.cat(outs)
            except REFUSALS as exc:
                refused(self.guard, exc)
        if not plan.shares:  # of a graph: its sequences are in the kernel's tables only
            raise RuntimeError("the attention's kernel is out of use")
        return read_rows(query, keys.transpose(0, 1), values.transpose(0, 1), plan, params)

    def _attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        read: PageRows | Offsets,
        params: AttentionParams,
    ) -> Tensor:
        if isinstance(read, PageRows):
            assert self._paged is not None
            return self._paged(query, keys, values, read, params)
        if read.gather is not None:
            keys, values = (one.index_select(0, read.gather) for one in (keys, values))
        return self._flash(
            query.contiguous(),
            keys,
            values,
            read.ends,
            read.starts,
            read.most_rows,
            read.most_keys,
            0.0,
            True,
            False,
            scale=params.scale,
            window_size_left=params.window - 1 if params.window else None,
            window_size_right=0 if params.window else None,
            seqused_k=read.used,
        )[0]

    def pin(self, plan: Plan, read: PageRows | Offsets) -> None:
        """Read the next steps of `plan` so, regardless of its shares."""
        self._parts = (plan, (StepPart(begin=0, end=len(plan.slots), read=read),))

    def table(self, device: torch.device) -> PageTable | None:
        """Return the pages of running sequences; `None` without a kernel that reads them."""
        if self._table is None and self._paged is not None:
            self._table = PageTable(-(-self._slots // self._page), device)
        return self._table

    def first_slot(self, share: Share) -> int:
        return share.blocks[0] * self._page

    def copy(self, source: int, target: int, count: int) -> None:
        for pair in self._layers.values():
            for tensor in pair:
                tensor[target : target + count] = tensor[source : source + count]

    @property
    def layers(self) -> int:
        return len(self._layers)

    @property
    def slot_bytes(self) -> int:
        tensors = [tensor for pair in self._layers.values() for tensor in pair]
        return sum(t.element_size() * t.shape[1] * t.shape[2] for t in tensors)

    def _of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        found = self._layers.get(layer)
        if found is None:
            found = self._layers[layer] = (self._empty(key), self._empty(value))
        return found

    def _empty(self, like: Tensor) -> Tensor:
        shape = (self._slots, like.shape[1], like.shape[2])
        return torch.zeros(shape, dtype=like.dtype, device=like.device)

    def _parts_of(self, plan: Plan) -> tuple[StepPart, ...]:
        """Divide a step for its first layer; the others reuse the parts."""
        if self._parts is None or self._parts[0] is not plan:
            self._parts = (plan, self._divide(plan.shares, plan.slots.device))
        return self._parts[1]

    def _divide(self, shares: tuple[Share, ...], device: torch.device) -> tuple[StepPart, ...]:
        """Neighbours that are read alike are one part; `shares` begins with those that decode."""
        table = self.table(device)
        decoding = 0
        if table is not None:
            decoding = next((n for n, s in enumerate(shares) if s.count > 1), len(shares))
            decoding = decoding if decoding <= SEATS else 0
        parts: list[StepPart] = []
        if table is not None and decoding:
            read = page_rows(table, shares[:decoding])
            parts.append(StepPart(begin=0, end=decoding, read=read))
        row = decoding
        for _, alike in groupby(shares[decoding:], in_one_piece):
            group = tuple(alike)
            end = row + sum(share.count for share in group)
            parts.append(StepPart(begin=row, end=end, read=offsets_of(group, self._page, device)))
            row = end
        return tuple(parts)


def offsets_of(shares: tuple[Share, ...], page: int, device: torch.device) -> Offsets:
    ends, starts, used = [0], [share.blocks[0] * page for share in shares], list[int]()
    slots: list[int] = []
    whole = all(in_one_piece(share) for share in shares)
    if not whole:
        starts = []
    for share in shares:
        ends.append(ends[-1] + share.count)
        used.append(share.keys)
        if not whole:
            starts.append(len(slots))
            places = [block * page + item for block in share.blocks for item in range(page)]
            slots += places[: share.keys]
    packed = torch.tensor([ends, [*starts, 0], [*used, 0]], dtype=torch.int32).to(device)
    return Offsets(
        ends=packed[0],
        starts=packed[1],
        used=packed[2, :-1],
        most_rows=max(share.count for share in shares),
        most_keys=max(used),
        gather=None if whole else torch.tensor(slots, device=device),
    )


def in_one_piece(share: Share) -> bool:
    """Return True if its pages are contiguous and in order."""
    first = share.blocks[0]
    return share.blocks == tuple(range(first, first + len(share.blocks)))
