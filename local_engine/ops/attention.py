"""Attention over the paged cache for all sequences of a step at once; torch operations only.

transformers calls `attend` instead of its own attention
(https://huggingface.co/docs/transformers/attention_interface). Letters: T packed tokens, H query
heads, K key/value heads, D head width, S cache slots, B decoding sequences, L keys.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from strowger_gateway.local_engine.ops.layer_rules import NO_RULES, LayerRule

NAME = "local_engine"
"""Name under which `attend` is registered with transformers."""

RAGGED = 1.25
"""Decoding sequences are read as one batch if padding adds at most this factor of keys."""


class UnsupportedAttention(RuntimeError):
    """The model needs a kind of attention that this engine cannot compute."""


class Span(Struct, frozen=True, kw_only=True):
    """One sequence's share of the packed tokens.

    row:  its first packed token; count: number of packed tokens.
    runs: slots (first, length) of its keys in order, including this step's.
    """

    row: int
    count: int
    runs: tuple[tuple[int, int], ...]

    @property
    def keys(self) -> int:
        return sum(length for _, length in self.runs)


class Group(Struct, frozen=True, kw_only=True):
    """Decoding sequences, one row each, whose keys begin at equal distances.

    keys: per sequence. slot: where the first sequence begins; stride: slots from one to the next.
    """

    row: int
    slot: int
    stride: int
    keys: tuple[int, ...]


class Share(Struct, frozen=True, kw_only=True):
    """One sequence by pages, for kernels that read a page table; in the order of the packed tokens.

    count: packed tokens; keys: number of keys that the last of them sees, itself included.
    blocks: the pages of those keys in order; the last one may be partial.
    owner:  the list that `blocks` is the beginning of, if it only grows for as long as it is the
            same object: what was read from it before needs no second look.
    """

    count: int
    keys: int
    blocks: tuple[int, ...]
    owner: list[int] | None = None


class Plan(Struct, kw_only=True, eq=False):
    """The attention inputs of one step, shared by all layers.

    slots:  [T] int64, the slot for each packed token's key and value.
    shares: every sequence of the step; groups and spans contain the same sequences again.
    masks:  built by the first layer that needs one, reused by the others.
    layer_params: by layer, added when a layer first attends.
    rules:  what the model's code gives its attention only as a mask, or not at all.
    positions: [T] int64, of the packed tokens in their sequences; needed where a rule scales.
    calls:  how often each layer has attended, if they are counted.
    numbers: int32, for caches that read them so: the slots, then as many pages per sequence as the
            longest one has, padded with 0. `None`: the cache makes its own from `shares`.
    """

    cache: "LayerCaches"
    slots: Tensor
    groups: tuple[Group, ...]
    spans: tuple[Span, ...]
    shares: tuple[Share, ...]
    masks: dict[tuple[int, int, int], Tensor]
    layer_params: dict[int, "AttentionParams"]
    rules: Mapping[int, LayerRule] = NO_RULES
    positions: Tensor | None = None
    calls: dict[int, int] | None = None
    numbers: Tensor | None = None


class LayerCaches(Protocol):
    """Stores the keys and values of all layers and computes attention over them."""

    def of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return one layer's [K, S, D] keys and values, for new ones like [T, K, D] `key`, `value`.

        Allocated on first use; may be views of another layout.
        """
        ...

    def write(self, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> None:
        """Store [T, K, D] keys and values at the slots, [T] int64, in the cache's own layout."""
        ...

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layer: int,
        plan: "Plan",
        params: "AttentionParams",
    ) -> Tensor:
        """Write the step's keys and values, and attend to all of each sequence.

        query: [T, H, D]; key, value: [T, K, D]. Returns [T, H, D].
        """
        ...

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy `count` slots from `source` to `target`, in every layer."""
        ...

    @property
    def layers(self) -> int:
        """Number of layers that have attended so far."""
        ...

    @property
    def slot_bytes(self) -> int:
        """Bytes per token over all layers."""
        ...


class AttentionParams(Struct, frozen=True, kw_only=True):
    """How to compute a layer's scores.

    window: the keys that a token sees, itself included; 0 is unlimited.
    chunk:  tokens see only those of their own chunk of so many tokens, counted from the sequence's
            beginning; 0 is unlimited.
    """

    scale: float
    window: int
    softcap: float | None
    sinks: Tensor | None
    chunk: int = 0

    @property
    def plain(self) -> bool:
        return self.softcap is None and self.sinks is None

    def first(self, position: int) -> int:
        """Return the position of the first key that the token at `position` sees."""
        first = max(0, position - self.window + 1) if self.window else 0
        return max(first, position // self.chunk * self.chunk) if self.chunk else first

    def chunked(self, shares: tuple[Share, ...]) -> bool:
        """True if a chunk hides a key of these sequences."""
        return self.chunk > 0 and any(share.keys > self.chunk for share in shares)


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    plan: Plan | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    is_causal: bool | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Write the step's keys and values to the cache and attend to all of each sequence.

    query: [1, H, T, D]; key, value: [1, K, T, D] in any floating dtype; the mask must be `None`.
    sliding_window: number of keys that a token sees, itself included. s_aux: [H] sink logits.
    Returns [1, T, H, D]. The signature, including further keywords, is transformers'.
    Raises UnsupportedAttention if the model passes its own mask or bias, and without a plan.
    """
    if plan is None:
        raise UnsupportedAttention("the model does not pass keyword arguments to its attention")
    causal = is_causal is not False and getattr(module, "is_causal", True) is not False
    if attention_mask is not None or position_bias is not None or not causal:
        raise UnsupportedAttention("the model passes its own mask or bias to its attention")
    layer = module.layer_idx
    assert isinstance(layer, int)
    rule = plan.rules.get(layer)
    params = AttentionParams(
        scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        window=sliding_window or 0,
        softcap=softcap,
        sinks=s_aux,
        chunk=0 if rule is None else rule.chunk,
    )
    if rule is not None and rule.temperature is not None and plan.positions is not None:
        query = rule.temperature.scaled(query, plan.positions)
    plan.layer_params[layer] = params
    if plan.calls is not None:
        plan.calls[layer] = plan.calls.get(layer, 0) + 1
    rows = plan.cache.attend(
        query[0].transpose(0, 1),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        layer,
        plan,
        params,
    )
    return rows.unsqueeze(0), None


def attend_rows(
    query: Tensor, key: Tensor, value: Tensor, layer: int, plan: Plan, params: AttentionParams
) -> Tensor:
    """`LayerCaches.attend` in torch's operations, over any `plan.cache`."""
    plan.cache.write(layer, key, value, plan.slots)
    keys, values = plan.cache.of(layer, key, value)
    return read_rows(query, keys, values, plan, params)


def read_rows(
    query: Tensor, keys: Tensor, values: Tensor, plan: Plan, params: AttentionParams
) -> Tensor:
    """Attend to what is written. query: [T, H, D]; keys, values: [K, S, D]. Returns [T, H, D]."""
    parts = [_decode(query, keys, values, group, plan, params) for group in plan.groups]
    parts += [extend(query, keys, values, span, plan, params) for span in plan.spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(
    query: Tensor, keys: Tensor, values: Tensor, group: Group, plan: Plan, params: AttentionParams
) -> Tensor:
    """Return [B, H, D]: one query per sequence; heads that share keys are rows of one product."""
    batch, heads = len(group.keys), query.shape[1]
    kv_heads = keys.shape[0]
    rows = query[group.row : group.row + batch]
    # Keys before the first one that any row sees are not read.
    firsts = [params.first(count - 1) for count in group.keys]
    skipped, longest = min(firsts), max(group.keys)
    place = (group.row, params.window, params.chunk)
    mask = plan.masks.get(place)
    if mask is None and (min(group.keys) != longest or max(firsts) != skipped):
        mask = plan.masks[place] = _ragged_mask(group.keys, firsts, query)
    first, longest = group.slot + skipped, longest - skipped
    folded = rows.reshape(batch, kv_heads, heads // kv_heads, -1)

    def view(cache: Tensor) -> Tensor:
        head, slot, item = cache.stride()
        return cache.as_strided(
            (batch, kv_heads, longest, cache.shape[2]),
            (group.stride * slot, head, slot, item),
            cache.storage_offset() + first * slot,
        )

    if params.plain:
        out = scaled_dot_product_attention(
            folded, view(keys), view(values), attn_mask=mask, scale=params.scale
        )
    else:
        out = _explicit(folded, view(keys), view(values), mask, params)
    return out.reshape(batch, heads, -1)


def extend(
    query: Tensor, keys: Tensor, values: Tensor, span: Span, plan: Plan, params: AttentionParams
) -> Tensor:
    """Return [count, H, D]: some tokens of one sequence, each attending to the tokens before it."""
    count, total, kv_heads = span.count, span.keys, keys.shape[0]
    skipped = params.first(total - count)
    rows = query[span.row : span.row + count].transpose(0, 1).unsqueeze(0)
    key, value = (_gather(cache, span.runs, skipped) for cache in (keys, values))
    seen = total - skipped
    mask, causal = None, count > 1 and count == seen and params.first(total - 1) == skipped
    if count > 1 and not (causal and params.plain):
        place = (span.row, params.window, params.chunk)
        mask = plan.masks.get(place)
        if mask is None:
            mask = plan.masks[place] = _causal_mask(count, seen, params, query.device)
    if params.plain and count > 1:
        out = scaled_dot_product_attention(
            rows,
            key,
            value,
            attn_mask=mask,
            is_causal=causal,
            scale=params.scale,
            enable_gqa=rows.shape[1] != kv_heads,
        )
        return out[0].transpose(0, 1)
    folded = rows.reshape(1, kv_heads, -1, rows.shape[-1])
    if mask is not None:
        mask = mask.repeat(rows.shape[1] // kv_heads, 1)
    if params.plain:
        out = scaled_dot_product_attention(folded, key, value, scale=params.scale)
    else:
        out = _explicit(folded, key, value, mask, params)
    return out.reshape(rows.shape[1], count, -1).transpose(0, 1)


def _gather(cache: Tensor, runs: tuple[tuple[int, int], ...], skipped: int) -> Tensor:
    """Return [1, K, L, D]: a view if the keys are contiguous, else a copy."""
    pieces: list[Tensor] = []
    for first, length in runs:
        cut = min(skipped, length)
        skipped -= cut
        if cut < length:
            pieces.append(cache[:, first + cut : first + length])
    joined = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
    return joined.unsqueeze(0)


def _ragged_mask(keys: Sequence[int], firsts: Sequence[int], like: Tensor) -> Tensor:
    """Return [B, 1, 1, L] in the query's dtype: 0 where a row sees a key, else -inf.

    keys: of each row. firsts: the first that it sees; L counts from the least of them.
    """
    ends, begins = torch.tensor([keys, firsts], device=like.device).unsqueeze(2)
    places = torch.arange(min(firsts), max(keys), device=like.device).unsqueeze(0)
    hidden = (places >= ends) | (places < begins)
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(hidden, -torch.inf)[:, None, None, :]


def _causal_mask(count: int, seen: int, params: AttentionParams, device: torch.device) -> Tensor:
    """Return [count, seen] bool, true where the last `count` tokens may attend.

    The keys left out before these end at a chunk's end, if there are chunks.
    """
    own = torch.arange(seen - count, seen, device=device).unsqueeze(1)
    places = torch.arange(seen, device=device).unsqueeze(0)
    visible = places <= own
    if params.window:
        visible &= places > own - params.window
    if params.chunk:
        visible &= places >= own // params.chunk * params.chunk
    return visible


def _explicit(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, params: AttentionParams
) -> Tensor:
    """Attention in small operations, for soft caps and sinks, which the fused operation lacks.

    query: [B, K, G x n, D], query heads sharing keys side by side (G slow, n fast).
    """
    scores = torch.matmul(query, key.transpose(-1, -2)).float() * params.scale
    if params.softcap is not None:
        scores = torch.tanh(scores / params.softcap) * params.softcap
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -torch.inf)
        else:
            scores = scores + mask
    if params.sinks is not None:
        per_head = params.sinks.float().view(1, query.shape[1], -1, 1)
        rows = query.shape[2] // per_head.shape[2]
        sinks = per_head.repeat_interleave(rows, dim=2).expand(query.shape[0], -1, -1, 1)
        scores = torch.cat([scores, sinks], dim=-1)
        weights = scores.softmax(dim=-1)[..., :-1]
    else:
        weights = scores.softmax(dim=-1)
    return torch.matmul(weights.to(value.dtype), value)
