"""Attention over the paged cache, for all sequences of a step at once; torch operations only.

transformers calls `attend` in place of its own attention
(https://huggingface.co/docs/transformers/attention_interface). Letters: T packed tokens, H query
heads, K key/value heads, D head width, S cache slots, B decoding sequences, L keys.
"""

from typing import Protocol

import torch
from msgspec import Struct
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

NAME = "local_engine"
"""Under which transformers finds `attend`."""

RAGGED = 1.25
"""Decoding sequences are read as one batch if padding adds at most this factor of keys."""


class UnsupportedAttention(RuntimeError):
    """The model asks for an attention that this engine cannot compute."""


class Span(Struct, frozen=True, kw_only=True):
    """One sequence's share of the packed tokens.

    row:  its first packed token; count: how many there are.
    runs: slots (first, length) of its keys in order, those of this step included.
    """

    row: int
    count: int
    runs: tuple[tuple[int, int], ...]

    @property
    def keys(self) -> int:
        return sum(length for _, length in self.runs)


class Group(Struct, frozen=True, kw_only=True):
    """Decoding sequences, one row each, whose keys begin at equal distances.

    keys: of each of them. slot: where the first one's begin; stride: from one to the next.
    """

    row: int
    slot: int
    stride: int
    keys: tuple[int, ...]


class Share(Struct, frozen=True, kw_only=True):
    """The same by pages, for kernels that read a page table; shares follow the packed tokens.

    count: packed tokens; keys: how many the last of them sees, itself included.
    blocks: the pages of those keys in order, the last of them perhaps not full.
    """

    count: int
    keys: int
    blocks: tuple[int, ...]


class Plan(Struct, kw_only=True, eq=False):
    """What the attention of one step needs to know, the same for every layer.

    slots: [T] int64, where each packed token's key and value go.
    shares: every sequence of the step; groups and spans are the same ones once more.
    masks: made by the first layer that needs one, kept for the others.
    asks:  how each layer wants its scores treated, as far as it has said so.
    """

    cache: "LayerCaches"
    slots: Tensor
    groups: tuple[Group, ...]
    spans: tuple[Span, ...]
    shares: tuple[Share, ...]
    masks: dict[tuple[int, int], Tensor]
    layer_params: dict[int, "AttentionParams"]


class LayerCaches(Protocol):
    """Where the keys and values of a layer are kept, and how they are attended to."""

    def of(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """[K, S, D] keys and values of one layer, for new ones like [T, K, D] `key`, `value`.

        Made when first asked for; may be views of another layout.
        """
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
        """Write the step's keys and values, and attends to all of each sequence's.

        query: [T, H, D]; key, value: [T, K, D]. Returns [T, H, D].
        """
        ...

    def copy(self, source: int, target: int, count: int) -> None:
        """Slots `source` … to slots `target` …, `count` of them, in every layer."""
        ...

    @property
    def layers(self) -> int:
        """How many have asked so far."""
        ...

    @property
    def slot_bytes(self) -> int:
        """What one token costs over all layers."""
        ...


class AttentionParams(Struct, frozen=True, kw_only=True):
    """How a layer wants its scores treated. window: 0 is unlimited."""

    scale: float
    window: int
    softcap: float | None
    sinks: Tensor | None

    @property
    def plain(self) -> bool:
        return self.softcap is None and self.sinks is None


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
    """Write the step's keys and values to the cache and attends to all of each sequence's.

    query: [1, H, T, D]; key, value: [1, K, T, D] in any floating dtype; the mask must be `None`.
    sliding_window: a token sees so many keys, itself included. s_aux: [H] sink logits.
    Returns [1, T, H, D]. The signature, further keywords too, is transformers'.
    Raises UnsupportedAttention for a mask or bias of the model's own, and without a plan.
    """
    if plan is None:
        raise UnsupportedAttention("the model does not hand keyword arguments to its attention")
    causal = is_causal is not False and getattr(module, "is_causal", True) is not False
    if attention_mask is not None or position_bias is not None or not causal:
        raise UnsupportedAttention("the model masks or biases its attention in a way of its own")
    params = AttentionParams(
        scale=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        window=sliding_window or 0,
        softcap=softcap,
        sinks=s_aux,
    )
    layer = module.layer_idx
    assert isinstance(layer, int)
    plan.layer_params[layer] = params
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
    """`LayerCaches.attend` in torch's operations, over whatever `plan.cache` keeps."""
    keys, values = plan.cache.of(layer, key, value)
    keys.index_copy_(1, plan.slots, key.transpose(0, 1))
    values.index_copy_(1, plan.slots, value.transpose(0, 1))
    parts = [_decode(query, keys, values, group, plan, params) for group in plan.groups]
    parts += [extend(query, keys, values, span, plan, params) for span in plan.spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(
    query: Tensor, keys: Tensor, values: Tensor, group: Group, plan: Plan, params: AttentionParams
) -> Tensor:
    """[B, H, D]: one query a sequence; query heads that share keys become rows of one product."""
    batch, heads = len(group.keys), query.shape[1]
    kv_heads = keys.shape[0]
    rows = query[group.row : group.row + batch]
    longest, first = max(group.keys), group.slot
    mask = plan.masks.get((group.row, params.window))
    if mask is None and min(group.keys) != longest:
        mask = plan.masks[group.row, params.window] = _ragged_mask(group, params.window, query)
    elif 0 < params.window < longest and mask is None:
        first, longest = first + longest - params.window, params.window
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
    """[count, H, D]: some tokens of one sequence, each seeing what lies before it."""
    count, total, kv_heads = span.count, span.keys, keys.shape[0]
    skipped = max(0, total - count - params.window + 1) if params.window else 0
    rows = query[span.row : span.row + count].transpose(0, 1).unsqueeze(0)
    key, value = (_gather(cache, span.runs, skipped) for cache in (keys, values))
    seen = total - skipped
    mask, causal = None, count > 1 and count == seen and not 0 < params.window < count
    if count > 1 and not (causal and params.plain):
        mask = plan.masks.get((span.row, params.window))
        if mask is None:
            mask = plan.masks[span.row, params.window] = _causal_mask(
                count, seen, params.window, query.device
            )
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
    """[1, K, L, D]: a view where the keys lie in one piece, else a copy."""
    pieces: list[Tensor] = []
    for first, length in runs:
        cut = min(skipped, length)
        skipped -= cut
        if cut < length:
            pieces.append(cache[:, first + cut : first + length])
    joined = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
    return joined.unsqueeze(0)


def _ragged_mask(group: Group, window: int, like: Tensor) -> Tensor:
    """[B, 1, 1, L] in the query's dtype: 0 where a key belongs to the row, else -inf."""
    keys = torch.tensor(group.keys, device=like.device).unsqueeze(1)
    places = torch.arange(max(group.keys), device=like.device).unsqueeze(0)
    hidden = places >= keys
    if window:
        hidden |= places < keys - window
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(hidden, -torch.inf)[:, None, None, :]


def _causal_mask(count: int, seen: int, window: int, device: torch.device) -> Tensor:
    """[count, seen] bool, true where the last `count` tokens may look."""
    own = torch.arange(seen - count, seen, device=device).unsqueeze(1)
    places = torch.arange(seen, device=device).unsqueeze(0)
    visible = places <= own
    if window:
        visible &= places > own - window
    return visible


def _explicit(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, params: AttentionParams
) -> Tensor:
    """Attention in small operations, for what the fused one lacks: soft caps and sinks.

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
