"""torch's flash attention on CUDA, over a cache that is laid out by slot.

`aten::_flash_attention_forward` takes packed queries, and for each sequence the start and number of
its keys. So a sequence whose pages are contiguous is read in place, without a page table. The
operator is not public: it is compared with torch's attention before it is used.
Letters as in attention.py; B sequences.
"""

from typing import Protocol, cast

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import Tensor

from local_engine.ops.attention import AttentionParams, Plan, Share, attend_rows
from local_engine.ops.kernels import PAGE
from local_engine.ops.self_test import Offer, Shape, attention_pairs

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


class Offsets(Struct, frozen=True, kw_only=True, eq=False):
    """One step's sequences.

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


class FlashCache:
    """[S, K, D] keys and values per layer, allocated when the layer first uses them."""

    def __init__(self, slots: int, *, flash: Flash, page: int = PAGE) -> None:
        self._slots = slots
        self._flash = flash
        self._page = page
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._offsets: tuple[Plan, Offsets] | None = None

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
        """Use torch's other operations for soft caps, sinks, wide heads and float32."""
        keys, values = self._of(layer, key, value)
        if not params.plain or query.shape[2] > WIDEST or query.dtype not in HALVES:
            return attend_rows(query, key, value, layer, plan, params)
        keys.index_copy_(0, plan.slots, key)
        values.index_copy_(0, plan.slots, value)
        offsets = self._offsets_of(plan)
        if offsets.gather is not None:
            keys, values = (one.index_select(0, offsets.gather) for one in (keys, values))
        return self._flash(
            query.contiguous(),
            keys,
            values,
            offsets.ends,
            offsets.starts,
            offsets.most_rows,
            offsets.most_keys,
            0.0,
            True,
            False,
            scale=params.scale,
            window_size_left=params.window - 1 if params.window else None,
            window_size_right=0 if params.window else None,
            seqused_k=offsets.used,
        )[0]

    def pin(self, plan: Plan, offsets: Offsets) -> None:
        """Use these offsets for the next steps of `plan`, regardless of its shares."""
        self._offsets = (plan, offsets)

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

    def _offsets_of(self, plan: Plan) -> Offsets:
        """Compute the offsets for the first layer of a step; the others reuse them."""
        if self._offsets is None or self._offsets[0] is not plan:
            offsets = offsets_of(plan.shares, self._page, plan.slots.device)
            self._offsets = (plan, offsets)
        return self._offsets[1]


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


def cuda_offers(
    shape: Shape, dtype: torch.dtype, device: str = "cuda", flash: Flash | None = None
) -> tuple[Offer, ...]:
    """flash: torch's operator, or a substitute for tests."""
    if dtype not in HALVES:
        return ()
    kernel = flash or cast(Flash, torch.ops.aten._flash_attention_forward)

    def cache(slots: int) -> FlashCache:
        return FlashCache(slots, flash=kernel)

    return (
        Offer(
            kernel="_flash_attention_forward",
            role="attention",
            check=lambda: (
                pair
                for scattered in (False, True)
                for window in (0, 7)
                for pair in attention_pairs(
                    cache, shape, PAGE, dtype, device, scattered=scattered, window=window
                )
            ),
            install=lambda kernels: replace(kernels, cache=cache),
        ),
    )


def in_one_piece(share: Share) -> bool:
    """Return True if its pages are contiguous and in order."""
    first = share.blocks[0]
    return share.blocks == tuple(range(first, first + len(share.blocks)))
