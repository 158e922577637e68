"""The largest logits of a row, found by block maxima instead of a sort.

One streaming pass takes the maximum of every block of 64 tokens. Any token among a row's K largest
is in one of the K blocks with the largest maxima, so only those are searched. The order is always
(value descending, token id ascending), so ties are cut as by a stable sort.
"""

from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

BLOCK = 64
_FEW = 128
_MANY = 4


class _Constants(Struct, frozen=True, kw_only=True):
    """Operands of `order_keys` as 0-dim tensors, which torch handles faster than Python numbers."""

    sign: Tensor
    magnitude: Tensor
    low_half: Tensor


@lru_cache(maxsize=8)
def _constants(device: torch.device) -> _Constants:
    """An NPU's shifts take no operand on the host, not even a scalar."""
    return _Constants(
        sign=torch.tensor(31, dtype=torch.int32, device=device),
        magnitude=torch.tensor(0x7FFFFFFF, dtype=torch.int32, device=device),
        low_half=torch.tensor(0xFFFFFFFF, dtype=torch.int64, device=device),
    )


_HERE = _constants(torch.device("cpu"))


class Candidates(Struct, frozen=True, kw_only=True):
    """Each row's K largest logits, value descending, then id ascending.

    values: float32 [R, K]. ids: int64 [R, K] token ids.
    """

    values: Tensor
    ids: Tensor


class Finder(Protocol):
    """A kernel for the candidates of float32 logits on a CPU."""

    def __call__(self, logits: Tensor, peaks: Tensor, count: int, rows: Tensor | None) -> Tensor:
        """Return the ids of each row's `count` largest, in this module's order: int64 [R, count].

        logits: [B, V]. peaks: their `block_maxima`, more than `count` per row; both contiguous.
        rows: int64 [R]; `None` is all.
        """
        ...


_finder: list[Finder] = []


def use_finder(finder: Finder | None) -> None:
    """Use `finder` in this process from now on; `None`: torch's operations (the default)."""
    _finder[:] = [] if finder is None else [finder]


def block_maxima(logits: Tensor, width: int = BLOCK) -> Tensor:
    """logits float32 [B, V] -> the maximum of each `width` tokens, float32 [B, ceil(V / width)]."""
    batch, vocabulary = logits.shape
    blocks, rest = divmod(vocabulary, width)
    if rest == 0:
        return logits.reshape(batch, blocks, width).amax(-1)
    whole = blocks * width
    peaks = logits[:, :whole].reshape(batch, blocks, width).amax(-1)
    return torch.cat((peaks, logits[:, whole:].amax(-1, keepdim=True)), dim=1)


def block_argmax(logits: Tensor, peaks: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return each row's largest logit, the lowest id among equals: int64 [R].

    logits: float32 [B, V]. peaks: `block_maxima(logits)`. rows: int64 [R]; `None` is all.
    """
    chosen = peaks if rows is None else peaks.index_select(0, rows)
    blocks = chosen.argmax(-1, keepdim=True)
    values, ids = gather_blocks(logits, blocks, rows)
    return ids.gather(1, values.argmax(-1, keepdim=True)).squeeze(1)


def gather_blocks(
    logits: Tensor, blocks: Tensor, rows: Tensor | None, width: int = BLOCK
) -> tuple[Tensor, Tensor]:
    """Return the tokens of some blocks: float32 [R, K * width] logits, int64 [R, K * width] ids.

    logits: float32 [B, V]. blocks: int64 [R, K] block numbers. rows: int64 [R]; `None` is all.
    If the last block is short, ids run past V and their logits are -inf.
    """
    vocabulary = logits.size(1)
    count = blocks.size(0)
    lanes = counting(width, logits.device)
    if vocabulary % width == 0:
        index = _offset(blocks, rows, vocabulary // width)
        values = logits.reshape(-1, width).index_select(0, index.reshape(-1))
        ids = torch.add(lanes, blocks.reshape(-1, 1), alpha=width)
        return values.view(count, -1), ids.view(count, -1)
    ids = torch.add(lanes, blocks.unsqueeze(2), alpha=width).view(count, -1)
    index = _offset(ids.clamp_max(vocabulary - 1), rows, vocabulary)
    values = logits.reshape(-1).index_select(0, index.view(-1)).view(count, -1)
    return values.masked_fill_(ids >= vocabulary, -torch.inf), ids


def top_candidates(
    logits: Tensor, peaks: Tensor, count: int, rows: Tensor | None = None
) -> Candidates:
    """Return the min(count, V) largest logits of each row, exactly, ties included.

    logits: float32 [B, V]; add 0.0 first if -0.0 must equal 0.0.
    peaks: `block_maxima(logits)`. rows: int64 [R]; `None` is all.
    """
    vocabulary = logits.size(1)
    count = min(count, vocabulary)
    if _finder and _suits(logits, peaks, count):
        return _read(logits, _finder[0](logits, peaks, count, rows), rows)
    width = BLOCK if count <= _FEW else BLOCK // 2
    if count * width * 2 >= vocabulary:
        return _from_all(logits, count, rows)
    chosen = peaks if rows is None else peaks.index_select(0, rows)
    if width != BLOCK:
        chosen = block_maxima(logits if rows is None else logits.index_select(0, rows), width)
    order = order_keys(chosen, counting(chosen.size(1), logits.device))
    values, ids = gather_blocks(logits, _best_ids(order, count), rows, width)
    return _read(logits, _best_ids(order_keys(values, ids), count, in_order=True), rows)


def _suits(logits: Tensor, peaks: Tensor, count: int) -> bool:
    """True if the finder applies; vectorised sorts are better for many candidates."""
    return (
        0 < count <= _FEW
        and count < peaks.size(1)
        and logits.device.type == "cpu"
        and logits.is_contiguous()
        and peaks.is_contiguous()
    )


def order_keys(values: Tensor, ids: Tensor) -> Tensor:
    """Return int64 keys with ascending order (value descending, id ascending); none are equal.

    values: float32; -0.0 is less than 0.0. ids: int64, 0 … 2**31 - 1, broadcastable to `values`;
    they are the lower half of the key.
    """
    bits = values.view(torch.int32)
    operands = _HERE if bits.is_cpu else _constants(bits.device)
    ordered = (
        bits.bitwise_right_shift(operands.sign).bitwise_and_(operands.magnitude).bitwise_xor_(bits)
    )
    return torch.sub(ids, ordered, alpha=1 << 32)


@lru_cache(maxsize=64)
def counting(size: int, device: torch.device) -> Tensor:
    """Return 0, 1, … size - 1 as int64 [size]; shared, so do not write to it."""
    return torch.arange(size, device=device)


def _best_ids(keys: Tensor, count: int, *, in_order: bool = False) -> Tensor:
    """Return the ids in the `count` smallest `order_keys` of each row, int64 [R, count].

    keys: int64 [R, N], all different, so the result is unique. For several rows on a CPU, numpy's
    vectorised partition takes a third of topk's time.
    """
    if keys.device.type != "cpu" or keys.size(0) < _MANY:
        best = keys.topk(count, dim=-1, largest=False, sorted=in_order).values
    else:
        ahead = keys.numpy()
        if count < keys.size(1):
            ahead = np.partition(ahead, count, axis=-1)[:, :count]
        best = torch.as_tensor(np.sort(ahead, axis=-1) if in_order else ahead)
    return best.bitwise_and((_HERE if best.is_cpu else _constants(best.device)).low_half)


def _read(logits: Tensor, ids: Tensor, rows: Tensor | None) -> Candidates:
    """Candidates by their ids, int64 [R, K]."""
    if rows is None:
        return Candidates(values=logits.gather(1, ids), ids=ids)
    index = _offset(ids, rows, logits.size(1))
    values = logits.reshape(-1).index_select(0, index.view(-1)).view(ids.shape)
    return Candidates(values=values, ids=ids)


def _from_all(logits: Tensor, count: int, rows: Tensor | None) -> Candidates:
    """`top_candidates` without blocks; use it if `count` is a large share of V."""
    chosen = logits if rows is None else logits.index_select(0, rows)
    vocabulary = logits.size(1)
    if count * 8 >= vocabulary:
        values, ids = chosen.sort(dim=-1, descending=True, stable=True)
        return Candidates(values=values[:, :count], ids=ids[:, :count])
    keys = order_keys(chosen, counting(vocabulary, logits.device))
    return _read(logits, _best_ids(keys, count, in_order=True), rows)


def _offset(index: Tensor, rows: Tensor | None, stride: int) -> Tensor:
    """`index` [R, N] into each row's `stride` items, as an index into all rows' items."""
    if rows is None:
        if index.size(0) == 1:
            return index
        rows = counting(index.size(0), index.device)
    return torch.add(index, rows.unsqueeze(1), alpha=stride)
