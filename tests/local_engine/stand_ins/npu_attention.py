"""The stand-in's fused attention: packed queries (TND) over paged keys, one by one, in float64."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from tests.local_engine.stand_ins.npu_refusals import HALVES, Value, refuse_unless

WHOLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def fused_attention(given: dict[str, Value]) -> tuple[Tensor, Tensor]:
    return _attend(
        given,
        ends=given["actual_seq_lengths"],
        keys=given["actual_seq_lengths_kv"],
        heads=given["num_heads"],
        scale=given["scale"],
    )


def fused_attention_v2(
    given: dict[str, Value], *, widths: tuple[int, ...] = (128,)
) -> tuple[Tensor, Tensor]:
    """widths: of the heads that this version of CANN takes."""
    return _attend(
        given,
        widths=widths,
        ends=given["actual_seq_qlen"],
        keys=given["actual_seq_kvlen"],
        heads=given["num_query_heads"],
        scale=given["softmax_scale"],
    )


def into(
    attention: Callable[[dict[str, Value]], tuple[Tensor, Tensor]],
) -> Callable[[dict[str, Value]], None]:
    """The overload `out` of a version: it allocates nothing."""

    def write(given: dict[str, Value]) -> None:
        room, out = given["workspace"], given["out"]
        refuse_unless(isinstance(room, Tensor), "a captured call wants a workspace")
        assert isinstance(room, Tensor)
        assert isinstance(out, list)
        refuse_unless(room.numel() >= workspace(given).numel(), "the workspace is too small")
        refuse_unless(len(out) == 2, "out: the result, and the softmax's logarithms")
        result = attention(given)[0]
        place = out[0]
        assert isinstance(place, Tensor)
        refuse_unless(place.shape == result.shape and place.dtype == result.dtype, "out")
        place.copy_(result)

    return write


def workspace(given: dict[str, Value]) -> Tensor:
    """Scratch memory that is enough for any lengths, in bytes."""
    query, table = given["query"], given["block_table"]
    assert isinstance(query, Tensor)
    assert isinstance(table, Tensor)
    return torch.empty(4 * query.shape[0] * query.shape[1] * table.shape[1], dtype=torch.uint8)


def _attend(
    given: dict[str, Value],
    *,
    ends: Value,
    keys: Value,
    heads: Value,
    scale: Value,
    widths: tuple[int, ...] = (128,),
) -> tuple[Tensor, Tensor]:
    query, key, value = given["query"], given["key"], given["value"]
    table, mask, kv_heads = given["block_table"], given["atten_mask"], given["num_key_value_heads"]
    assert isinstance(query, Tensor)
    assert isinstance(key, Tensor)
    assert isinstance(value, Tensor)
    assert isinstance(scale, int | float)
    assert isinstance(heads, int)
    assert isinstance(kv_heads, int)
    layout = given["input_layout"]
    assert isinstance(layout, str)
    refuse_unless(layout == "TND" and query.dim() == 3, "layout TND, [T, N, D]")
    refuse_unless(query.is_contiguous(), "query must be contiguous")
    refuse_unless(query.dtype in HALVES, "two-byte dtypes only")
    refuse_unless(query.dtype == key.dtype == value.dtype, "dtypes differ")
    refuse_unless(query.shape[1] == heads and heads % kv_heads == 0, "num_heads")
    width = query.shape[2]
    refuse_unless(width in widths, f"TND without rope wants a head width among {widths}")
    refuse_unless(isinstance(ends, list), "TND wants actual_seq_lengths")
    refuse_unless(isinstance(keys, list), "a page table wants actual_seq_lengths_kv")
    refuse_unless(isinstance(table, Tensor), "paged keys want a block_table")
    ends, keys = cast("list[int]", ends), cast("list[int]", keys)
    assert isinstance(table, Tensor)
    _check_pages(given, key, kv_heads * width, table, keys)
    refuse_unless(len(ends) == len(keys) == len(table) <= 4096, "batch")
    refuse_unless(ends == sorted(ends) and ends[-1] == len(query), "query lengths are cumulative")
    band = _band(given)
    _check_mask(mask)
    sinks = given.get("learnable_sink")
    if isinstance(sinks, Tensor):
        refuse_unless(sinks.dtype == torch.bfloat16, "learnable_sink: bfloat16")
        refuse_unless(sinks.shape == (heads,), "learnable_sink: [N]")
    else:
        sinks = None
    out = _by_sequence(query, key, value, table, ends, keys, scale, band, sinks)
    return out, torch.empty(0)


def _band(given: dict[str, Value]) -> int | None:
    """Return how many keys before its own a query sees; `None`: all."""
    mode, before, after = given["sparse_mode"], given["pre_tokens"], given["next_tokens"]
    assert isinstance(before, int)
    assert isinstance(after, int)
    refuse_unless(mode in {3, 4}, "causal over a cache is sparse_mode 3, a band is 4")
    if mode == 3:
        return None
    refuse_unless(after == 0 and before >= 0, "a causal band has next_tokens 0")
    return before


def _check_pages(
    given: dict[str, Value], key: Tensor, row: int, table: Tensor, keys: list[int]
) -> None:
    page = given["block_size"]
    assert isinstance(page, int)
    refuse_unless(page % 128 == 0 and 128 <= page <= 512, "block_size is a multiple of 128")
    refuse_unless(key.dim() == 3 and key.shape[1] == page, "pages are [P, block_size, K x D]")
    refuse_unless(key.shape[2] == row, "pages are [P, block_size, K x D]")
    refuse_unless(key.shape[2] <= 65_535, "K x D of this layout is at most 65535")
    refuse_unless(table.dtype == torch.int32 and table.dim() == 2, "block_table is int32 [B, n]")
    refuse_unless(bool(((table >= 0) & (table < len(key))).all()), "a page outside the cache")
    refuse_unless(max(keys) <= table.shape[1] * page, "more keys than pages")
    refuse_unless(min(keys) > 0, "a sequence without keys")


def _check_mask(mask: Value) -> None:
    assert isinstance(mask, Tensor)
    refuse_unless(mask.dtype in (torch.bool, torch.int8, torch.uint8), "atten_mask's dtype")
    refuse_unless(torch.equal(mask.bool(), WHOLE), "atten_mask: [2048, 2048], strictly upper")


def _by_sequence(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    table: Tensor,
    ends: list[int],
    keys: list[int],
    scale: float,
    band: int | None,
    sinks: Tensor | None,
) -> Tensor:
    heads, width = query.shape[1:]
    kv_heads = key.shape[2] // width
    out = torch.empty_like(query)
    begin = 0
    for row, (end, length) in enumerate(zip(ends, keys, strict=True)):
        pages = table[row].to(torch.int64)
        seen, read = (
            one[pages].reshape(-1, kv_heads, width)[:length].double().transpose(0, 1)
            for one in (key, value)
        )
        seen, read = (one.repeat_interleave(heads // kv_heads, dim=0) for one in (seen, read))
        asking = query[begin:end].double().transpose(0, 1)
        scores = asking @ seen.transpose(1, 2) * scale
        count = end - begin
        places = torch.arange(length)
        own = torch.arange(length - count, length).unsqueeze(1)
        scores = scores.masked_fill(places > own, -torch.inf)
        if band is not None:
            scores = scores.masked_fill(places < own - band, -torch.inf)
        if sinks is not None:
            sunk = sinks.double().view(-1, 1, 1).expand(-1, count, 1)
            weights = torch.cat((scores, sunk), dim=-1).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-1)
        out[begin:end] = (weights @ read).transpose(0, 1).to(query.dtype)
        begin = end
    return out
