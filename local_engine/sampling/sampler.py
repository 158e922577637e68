"""Draw one token per row; each row has its own parameters and seed.

A row's token depends only on its logits, its parameters and (seed, position), never on its
neighbours: noise is keyed by token id, masses are summed as integers, and the number of candidates
changes the time, never the choice.
"""

from math import inf
from typing import Final

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.sampling.batch_params import FreeRows, LogprobRows, SamplingRows
from strowger_gateway.local_engine.sampling.counter_rng import exponentials, uniforms
from strowger_gateway.local_engine.sampling.exact_device import at, doubles, rows_at
from strowger_gateway.local_engine.sampling.logits_processors import Allowed, mask_out
from strowger_gateway.local_engine.sampling.top_candidates import (
    BLOCK,
    block_argmax,
    block_maxima,
    gather_blocks,
    top_candidates,
)
from strowger_gateway.local_engine.sampling.truncation import (
    UNIT,
    Survivors,
    block_masses,
    largest,
    survivors,
)


class TokenLogprobs(Struct, frozen=True, kw_only=True):
    """Natural logarithms of the model's own probabilities, before any processor or temperature.

    places: places in the batch of the R rows that requested them. chosen: float32 [R].
    top, top_ids: float32 and int64 [R, N], best first; N is the most that any row requested.
    """

    places: tuple[int, ...]
    chosen: Tensor
    top: Tensor
    top_ids: Tensor


NO_TOKEN: Final = -1
"""Drawn from a row whose logits are not numbers."""


class Sampled(Struct, frozen=True, kw_only=True):
    """ids: int64 [B], on the logits' device or, if all were drawn there, the host; NO_TOKEN for
        rows with a NaN or an infinite logit.
    logprobs: `None` if no row requested them.
    """

    ids: Tensor
    logprobs: TokenLogprobs | None


def sample(logits: Tensor, rows: SamplingRows, allowed: Allowed | None = None) -> Sampled:
    """Draw one token per row.

    logits: [B, V] float16, bfloat16 or float32, unchanged; a row that is -inf throughout gets
        some token, one that has a NaN or +inf gets NO_TOKEN. B may be 0.
    rows: B rows, in the order of the logits; call `rows.advance(tokens)` before the next step.
    allowed: the tokens that a grammar permits; only for rows that have one.

    Does not wait for the device, except for rows with top_p or min_p but no top_k: for those, the
    host reads whether the first 64 candidates were enough, and again for each wider search.
    Raises ValueError if the shapes do not match.
    """
    if logits.shape != (rows.size, rows.vocabulary):
        raise ValueError(
            f"logits: {list(logits.shape)}, but the rows are [{rows.size}, {rows.vocabulary}]"
        )
    raw = logits.to(torch.float32)
    requested = rows.logprobs
    # Log probabilities are those of the model's logits: keep these if a row requests them.
    values = processed(raw, rows, allowed, overwrite=requested is None and raw is not logits)
    peaks = block_maxima(values)
    ids = _draw(values, peaks, rows)
    drawn = ids.masked_fill(at(~(peaks.amax(-1) < inf), ids.device), NO_TOKEN)
    if requested is None:
        return Sampled(ids=drawn, logprobs=None)
    peaks = peaks if values is raw else block_maxima(raw)
    return Sampled(ids=drawn, logprobs=_logprobs(raw, peaks, ids, requested))


def processed(
    raw: Tensor, rows: SamplingRows, allowed: Allowed | None = None, *, overwrite: bool = False
) -> Tensor:
    """Return the logits after grammar, biases, penalties and bans, before temperature and filters.

    raw: float32 [B, V], unchanged unless `overwrite`. Returns `raw` itself if nothing
    changes it, else a float32 [B, V].
    """
    if allowed is None and not rows.processors.active:
        return raw
    values = raw.contiguous() if overwrite else raw.clone(memory_format=torch.contiguous_format)
    rows.processors.apply(values)
    if allowed is not None:
        mask_out(values, allowed)
    return values


def probabilities(values: Tensor, rows: SamplingRows) -> Tensor:
    """Return the distribution that each row is drawn from, float32 [B, V].

    values: float32 [B, V] processed logits (`processed`). Used for draft tokens, which are accepted
    by probability; costs a full [B, V] matrix, so do not use it for plain steps. The result is on
    the device that computes in float64 (`exact_device`).
    """
    values = at(values, rows.exact)
    peaks, sorted_rows = block_maxima(values), rows.whole
    spread = torch.zeros_like(values, memory_format=torch.contiguous_format)
    if sorted_rows.has_greedy:
        greedy = rows_at(sorted_rows.greedy, rows.exact)
        ids = block_argmax(values, peaks, greedy).unsqueeze(1)
        _spread(spread, greedy, ids, torch.ones_like(ids, dtype=torch.float64))
    for group in sorted_rows.cut:
        for part in survivors(values, peaks, group):
            _spread(spread, part.rows, part.ids, part.weights)
    free = sorted_rows.free
    if free is not None:
        chosen = values if free.rows is None else values.index_select(0, free.rows)
        every = torch.arange(values.size(1), device=values.device).expand_as(chosen)
        exact = chosen.to(torch.float64).div_(free.temperature).softmax(-1)
        _spread(spread, free.rows, every, exact)
    return spread


def _spread(target: Tensor, rows: Tensor | None, ids: Tensor, weights: Tensor) -> None:
    """Write normalised `weights` of the tokens `ids` into some rows of `target`."""
    shares = (weights / weights.sum(-1, keepdim=True)).to(target.dtype)
    filled = target.new_zeros((ids.size(0), target.size(1))).scatter_(1, ids, shares)
    if rows is None:
        target.copy_(filled)
    else:
        target.index_copy_(0, rows, filled)


def _draw(values: Tensor, peaks: Tensor, rows: SamplingRows) -> Tensor:
    """Return int64 [B]; each method fills its own rows."""
    parts: list[tuple[Tensor | None, Tensor]] = []
    left, fused = rows.left, rows.fused
    if fused is not None:
        chosen = values if fused.rows is None else values.index_select(0, fused.rows)
        drawn = fused.operator.draw(chosen, fused.temperature, fused.top_k, fused.top_p)
        parts.append((fused.rows, drawn))
    if left.has_greedy:
        parts.append((left.greedy, block_argmax(values, peaks, left.greedy)))
    if left.cut or left.free is not None:
        keys = rows.keys()
        for group in left.cut:
            found = survivors(values, peaks, group)
            parts.extend((part.rows, _race(part, keys)) for part in found)
        if left.free is not None:
            parts.append((left.free.rows, _draw_free(values, peaks, left.free, keys)))
    if len(parts) == 1 and parts[0][0] is None:
        return parts[0][1]
    devices = {ids.device for _, ids in parts}
    device = devices.pop() if len(devices) == 1 else values.device
    drawn = torch.empty(rows.size, dtype=torch.int64, device=device)
    # In order: a row that `survivors` repeats takes the token of its widest search.
    for places, ids in parts:
        if places is None:
            drawn.copy_(ids)
        else:
            drawn.index_copy_(0, at(places, device), at(ids, device))
    return drawn


def _race(part: Survivors, keys: Tensor) -> Tensor:
    """Return the token with the largest probability / Exp(1) number: int64 [R]."""
    keys = keys if part.rows is None else keys.index_select(0, part.rows)
    winner = (part.weights / exponentials(keys, part.ids)).argmax(-1, keepdim=True)
    return part.ids.gather(1, winner).squeeze(1)


def _draw_free(values: Tensor, peaks: Tensor, group: FreeRows, keys: Tensor) -> Tensor:
    """Invert the cumulative distribution, first over blocks, then inside one: int64 [R]."""
    if group.rows is not None:
        keys = keys.index_select(0, group.rows)
    home, rows = group.temperature.device, rows_at(group.rows, values.device)
    masses = block_masses(values, peaks, rows, group.temperature, unscaled=group.unscaled)
    reached = masses.cumsum(-1)
    target = _inverse(uniforms(keys), reached[:, -1:])
    # The number of blocks that end at or below the target is the index of its block.
    blocks = (reached <= target).sum(-1, keepdim=True).clamp_max_(reached.size(1) - 1)
    upper = reached.gather(1, blocks)
    lower = reached.gather(1, (blocks - 1).clamp_min(0)).mul_(blocks > 0)
    inside, ids = gather_blocks(values, at(blocks, values.device), rows)
    top = doubles(largest(peaks, rows), home)
    weights = doubles(inside, home).sub_(top).div_(group.temperature).exp_()
    reached = weights.mul_(UNIT).to(torch.int64).cumsum(-1)
    share = (target - lower).to(torch.float64).div_(upper - lower)
    target = _inverse(share, reached[:, -1:])
    lanes = (reached <= target).sum(-1, keepdim=True).clamp_max_(BLOCK - 1)
    return at(ids, home).gather(1, lanes).squeeze(1).clamp_max_(values.size(1) - 1)


def _inverse(share: Tensor, total: Tensor) -> Tensor:
    """Return the unit of mass at `share` (0 … 1) of `total`: int64 [R, 1], 0 … total - 1."""
    return torch.minimum((share * total).to(torch.int64), total - 1)


def _logprobs(values: Tensor, peaks: Tensor, ids: Tensor, requested: LogprobRows) -> TokenLogprobs:
    chosen, picked = values, at(ids, values.device)
    if requested.rows is not None:
        chosen = values.index_select(0, requested.rows)
        picked = picked.index_select(0, requested.rows)
    norm = chosen.logsumexp(-1, keepdim=True)
    best = top_candidates(values, peaks, max(requested.count, 1), requested.rows)
    return TokenLogprobs(
        places=requested.places,
        chosen=(chosen.gather(1, picked.unsqueeze(1)) - norm).squeeze(1),
        top=(best.values - norm)[:, : requested.count],
        top_ids=best.ids[:, : requested.count],
    )
