"""The largest logits of a row, found by block maxima instead of a sort.

One streaming pass takes the maximum of every block of 64 tokens. Any token among a row's K
largest lies in one of the K blocks with the largest maxima, so only those are looked into.
Order is always (value descending, token id ascending): ties are cut like a stable sort would.
"""

import torch
from msgspec import Struct
from torch import Tensor

BLOCK = 64
_SIGN_FLIP = 0x7FFFFFFF
_LOW_HALF = 0xFFFFFFFF


class Candidates(Struct, frozen=True, kw_only=True):
    """Each row's K largest logits, value descending, then id ascending.

    values: float32 [R, K]. ids: int64 [R, K] token ids.
    """

    values: Tensor
    ids: Tensor


def block_maxima(logits: Tensor) -> Tensor:
    """logits float32 [B, V] -> the maximum of each 64 tokens, float32 [B, ceil(V / 64)]."""
    batch, vocabulary = logits.shape
    blocks = vocabulary // BLOCK
    whole = blocks * BLOCK
    peaks = logits[:, :whole].reshape(batch, blocks, BLOCK).amax(-1)
    if whole == vocabulary:
        return peaks
    return torch.cat((peaks, logits[:, whole:].amax(-1, keepdim=True)), dim=1)


def block_argmax(logits: Tensor, peaks: Tensor, rows: Tensor | None = None) -> Tensor:
    """Each row's largest logit, the lowest id among equals: int64 [R].

    logits: float32 [B, V]. peaks: `block_maxima(logits)`. rows: int64 [R]; `None` is all.
    """
    chosen = peaks if rows is None else peaks.index_select(0, rows)
    blocks = chosen.argmax(-1, keepdim=True)
    values, ids = gather_blocks(logits, blocks, rows)
    return ids.gather(1, values.argmax(-1, keepdim=True)).squeeze(1)


def gather_blocks(logits: Tensor, blocks: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    """The tokens of some blocks: float32 [R, K*64] logits and int64 [R, K*64] ids.

    logits: float32 [B, V]. blocks: int64 [R, K] block numbers. rows: int64 [R]; `None` is all.
    Where the last block is short, ids run past V and their logits are -inf.
    """
    batch, vocabulary = logits.shape
    count = blocks.size(0)
    lanes = torch.arange(BLOCK, device=logits.device)
    ids = (blocks.unsqueeze(2) * BLOCK + lanes).view(count, -1)
    start = _row_numbers(rows, batch, logits.device)
    if vocabulary % BLOCK == 0:
        flat = logits.reshape(-1, BLOCK)
        index = blocks + (start * (vocabulary // BLOCK)).unsqueeze(1)
        return flat.index_select(0, index.view(-1)).view(count, -1), ids
    index = ids.clamp_max(vocabulary - 1) + (start * vocabulary).unsqueeze(1)
    values = logits.reshape(-1).index_select(0, index.view(-1)).view(count, -1)
    return values.masked_fill_(ids >= vocabulary, -torch.inf), ids


def top_candidates(
    logits: Tensor, peaks: Tensor, count: int, rows: Tensor | None = None
) -> Candidates:
    """The min(count, V) largest logits of each row, exactly, ties included.

    logits: float32 [B, V]. peaks: `block_maxima(logits)`. rows: int64 [R]; `None` is all.
    """
    vocabulary = logits.size(1)
    count = min(count, vocabulary)
    if count * BLOCK * 2 >= vocabulary:
        return _from_all(logits, count, rows)
    chosen = peaks if rows is None else peaks.index_select(0, rows)
    numbers = torch.arange(chosen.size(1), device=logits.device)
    blocks = order_keys(chosen, numbers).topk(count, sorted=False).indices
    values, ids = gather_blocks(logits, blocks, rows)
    return _decode(order_keys(values, ids).topk(count).values)


def order_keys(values: Tensor, ids: Tensor) -> Tensor:
    """int64 keys whose descending order is (value descending, id ascending); none are equal.

    values: float32; -0.0 equals 0.0. ids: int64, 0 … 2**31-1, broadcastable to `values`.
    """
    bits = (values + 0.0).view(torch.int32)
    flips = (bits >> 31).bitwise_and_(_SIGN_FLIP)
    return bits.bitwise_xor_(flips).to(torch.int64).bitwise_left_shift_(32).sub_(ids)


def _decode(keys: Tensor) -> Candidates:
    """The inverse of `order_keys`."""
    ids = keys.neg().bitwise_and_(_LOW_HALF)
    bits = (keys + ids).bitwise_right_shift_(32).to(torch.int32)
    bits.bitwise_xor_((bits >> 31).bitwise_and_(_SIGN_FLIP))
    return Candidates(values=bits.view(torch.float32), ids=ids)


def _from_all(logits: Tensor, count: int, rows: Tensor | None) -> Candidates:
    """`top_candidates` without blocks, for a `count` that is a large share of V."""
    chosen = logits if rows is None else logits.index_select(0, rows)
    vocabulary = logits.size(1)
    if count * 8 >= vocabulary:
        values, ids = chosen.sort(dim=-1, descending=True, stable=True)
        return Candidates(values=values[:, :count], ids=ids[:, :count])
    keys = order_keys(chosen, torch.arange(vocabulary, device=logits.device))
    return _decode(keys.topk(count).values)


def _row_numbers(rows: Tensor | None, batch: int, device: torch.device) -> Tensor:
    return torch.arange(batch, device=device) if rows is None else rows
