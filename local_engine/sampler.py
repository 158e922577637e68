"""Draws one token per row, each row with parameters and a seed of its own.

A row's token depends on its logits, its parameters and (seed, position) alone. What could let a
neighbour in is kept out: noise is keyed by token id, masses are summed as integers, and how many
candidates are looked at changes the time, never the choice.
"""

import torch
from msgspec import Struct
from torch import Tensor

from local_engine.candidates import (
    BLOCK,
    Candidates,
    block_argmax,
    block_maxima,
    gather_blocks,
    top_candidates,
)
from local_engine.noise import exponentials, uniforms
from local_engine.processors import Allowed, mask_out
from local_engine.rows import NARROW, WIDE, CutRows, FreeRows, LogprobRows, SamplingRows

_ONE = float(1 << 40)


class TokenLogprobs(Struct, frozen=True, kw_only=True):
    """Natural logarithms of the model's own probabilities, before any processor or temperature.

    places: places in the batch of the R rows that asked. chosen: float32 [R].
    top, top_ids: float32 and int64 [R, N], best first; N is the most that any row asked for.
    """

    places: tuple[int, ...]
    chosen: Tensor
    top: Tensor
    top_ids: Tensor


class Sampled(Struct, frozen=True, kw_only=True):
    """ids: int64 [B] on the logits' device. logprobs: `None` where no row asked."""

    ids: Tensor
    logprobs: TokenLogprobs | None


def sample(logits: Tensor, rows: SamplingRows, allowed: Allowed | None = None) -> Sampled:
    """Draw one token per row.

    logits: [B, V] float16, bfloat16 or float32, finite or -inf, left untouched; a row that is -inf
        throughout gets some token.
    rows: B rows, in the order of the logits; call `rows.advance(tokens)` before the next step.
    allowed: what a grammar permits, for the rows that have one.

    Does not wait for the device, except where rows are cut by top_p or min_p without top_k: those
    ask once whether the first 64 candidates were enough.
    Raises ValueError where the shapes do not fit.
    """
    if logits.shape != (rows.size, rows.vocabulary):
        raise ValueError(
            f"logits: {list(logits.shape)}, but the rows are [{rows.size}, {rows.vocabulary}]"
        )
    raw = logits.to(torch.float32)
    asked = rows.logprobs
    values = processed(raw, rows, allowed, overwrite=asked is None and raw is not logits)
    peaks = block_maxima(values)
    ids = _draw(values, peaks, rows)
    if asked is None:
        return Sampled(ids=ids, logprobs=None)
    peaks = peaks if values is raw else block_maxima(raw)
    return Sampled(ids=ids, logprobs=_logprobs(raw, peaks, ids, asked))


def processed(
    raw: Tensor, rows: SamplingRows, allowed: Allowed | None = None, *, overwrite: bool = False
) -> Tensor:
    """The logits after grammar, biases, penalties and bans, before temperature and filters.

    raw: float32 [B, V], left untouched unless `overwrite`. Returns `raw` itself where nothing
    changes it, else a float32 [B, V].
    """
    if allowed is None and not rows.processors.active:
        return raw
    values = raw.contiguous() if overwrite else raw.clone(memory_format=torch.contiguous_format)
    if allowed is not None:
        mask_out(values, allowed)
    rows.processors.apply(values)
    return values


def _draw(values: Tensor, peaks: Tensor, rows: SamplingRows) -> Tensor:
    """int64 [B]; each method fills the rows that are its own."""
    parts: list[tuple[Tensor | None, Tensor]] = []
    if rows.has_greedy:
        parts.append((rows.greedy, block_argmax(values, peaks, rows.greedy)))
    if rows.cut or rows.free is not None:
        keys = rows.keys()
        parts.extend((group.rows, _draw_cut(values, peaks, group, keys)) for group in rows.cut)
        if rows.free is not None:
            parts.append((rows.free.rows, _draw_free(values, peaks, rows.free, keys)))
    ids = torch.empty(rows.size, dtype=torch.int64, device=values.device)
    for places, drawn in parts:
        if places is None:
            return drawn
        ids.index_copy_(0, places, drawn)
    return ids


def _draw_cut(values: Tensor, peaks: Tensor, group: CutRows, keys: Tensor) -> Tensor:
    """int64 [R]. Rows whose candidates end before their mass does are drawn again among more."""
    keys = keys if group.rows is None else keys.index_select(0, group.rows)
    best = top_candidates(values, peaks, group.count, group.rows)
    total = None
    if group.by_mass is not None:
        places = group.by_mass if group.rows is None else group.rows[group.by_mass]
        temperature = group.temperature.index_select(0, group.by_mass)
        total = _block_masses(values, peaks, places, temperature).sum(-1, keepdim=True)
    drawn, short = _race(best, group, total, keys)
    if short is None or best.ids.size(1) == values.size(1):
        return drawn
    again = short.nonzero().squeeze(1)
    if again.numel() == 0:
        return drawn
    wider = WIDE if group.count <= NARROW else values.size(1)
    everything = torch.arange(values.size(0), device=values.device)
    part = _select(group, again, everything, wider)
    places = everything if group.rows is None else group.rows
    batch_keys = torch.zeros_like(everything).index_copy_(0, places, keys)
    return drawn.index_copy_(0, again, _draw_cut(values, peaks, part, batch_keys))


def _race(
    best: Candidates, group: CutRows, total: Tensor | None, keys: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Cut the candidates and let them race: the drawn ids [R], and bool [R] of the rows that
    would have needed more candidates (`None` where none can).

    total: int64 [M, 1], the whole vocabulary's mass of the rows `group.by_mass`.
    """
    exact = best.values.to(torch.float64)
    weights = exact.sub_(exact[:, :1].clone()).div_(group.temperature).exp_()
    keep, short = _cut(weights, group, total)
    noise = exponentials(keys, best.ids)
    winner = weights.mul_(keep).div_(noise).argmax(-1, keepdim=True)
    return best.ids.gather(1, winner).squeeze(1), short


def _cut(weights: Tensor, group: CutRows, total: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """What min_p, top-k and top-p leave, bool [R, K], and the rows with too few candidates."""
    keep = torch.ones_like(weights, dtype=torch.bool)
    if group.min_p is not None:
        keep &= weights >= group.min_p
    if group.typical_p is not None:
        keep &= _typical(weights, keep, group.typical_p)
    if group.top_k is not None:
        keep &= keep.cumsum(-1) <= group.top_k
    open_end = keep[:, -1:].clone()
    if group.top_p is not None:
        masses = weights.mul(_ONE).to(torch.int64).mul_(keep)
        reached = masses.cumsum(-1)
        whole = reached[:, -1:]
        if group.by_mass is not None and total is not None:
            whole = whole.index_copy(0, group.by_mass, total)
        limit = whole * group.top_p
        keep &= (reached - masses) < limit
        if group.floored is None:
            open_end &= reached[:, -1:] < limit
        else:
            open_end &= (reached[:, -1:] < limit) | group.floored
    if group.closed is None:
        return keep, None
    return keep, (open_end & ~group.closed).squeeze(1)


def _typical(weights: Tensor, keep: Tensor, share: Tensor) -> Tensor:
    """The tokens whose surprise is nearest to the expected surprise and that hold `share` of the
    mass, bool [R, V]; all where it is 1. https://arxiv.org/abs/2202.00666

    weights: float64 [R, V], the whole vocabulary. keep: bool [R, V]. share: float64 [R, 1].
    """
    masses = weights.mul(_ONE).to(torch.int64).mul_(keep)
    total = masses.sum(-1, keepdim=True)
    surprise = (total / _ONE).log() - weights.log()
    parts = surprise.mul(masses / total).masked_fill_(masses == 0, 0.0)
    expected = parts.mul_(_ONE).to(torch.int64).sum(-1, keepdim=True) / _ONE
    distance = surprise.sub_(expected).abs_().masked_fill_(~keep, torch.inf)
    nearest, order = distance.sort(dim=-1, stable=True)
    reached = masses.gather(1, order).cumsum(-1)
    last = (reached < share * total).sum(-1, keepdim=True).clamp_max_(weights.size(1) - 1)
    return (distance <= nearest.gather(1, last)) | (share >= 1)


def _draw_free(values: Tensor, peaks: Tensor, group: FreeRows, keys: Tensor) -> Tensor:
    """Inverse of the cumulated distribution, first over blocks, then inside one: int64 [R]."""
    rows = group.rows
    if rows is not None:
        keys = keys.index_select(0, rows)
    reached = _block_masses(values, peaks, rows, group.temperature).cumsum(-1)
    target = _inverse(uniforms(keys).unsqueeze(1), reached[:, -1:])
    blocks = (reached <= target).sum(-1, keepdim=True).clamp_max_(reached.size(1) - 1)
    upper = reached.gather(1, blocks)
    lower = reached.gather(1, (blocks - 1).clamp_min(0)).mul_(blocks > 0)
    inside, ids = gather_blocks(values, blocks, rows)
    top = _top(peaks, rows).to(torch.float64)
    weights = inside.to(torch.float64).sub_(top).div_(group.temperature).exp_()
    reached = weights.mul_(_ONE).to(torch.int64).cumsum(-1)
    share = (target - lower).to(torch.float64).div_(upper - lower)
    target = _inverse(share, reached[:, -1:])
    lanes = (reached <= target).sum(-1, keepdim=True).clamp_max_(BLOCK - 1)
    return ids.gather(1, lanes).squeeze(1).clamp_max_(values.size(1) - 1)


def _inverse(share: Tensor, total: Tensor) -> Tensor:
    """The unit of mass at `share` (0 … 1) of `total`: int64 [R, 1], 0 … total - 1."""
    return torch.minimum((share * total).to(torch.int64), total - 1)


def _block_masses(
    values: Tensor, peaks: Tensor, rows: Tensor | None, temperature: Tensor
) -> Tensor:
    """exp((logit - row's largest) / temperature), summed by blocks: int64 [R, blocks] of 2**-40.

    Integers, because their sum does not depend on the order in which a device adds them.
    """
    chosen = values if rows is None else values.index_select(0, rows)
    weights = (chosen - _top(peaks, rows)).div_(temperature.to(torch.float32)).exp_()
    count, vocabulary = weights.shape
    whole = vocabulary // BLOCK * BLOCK
    sums = weights[:, :whole].reshape(count, -1 if whole else 0, BLOCK).sum(-1)
    if whole < vocabulary:
        sums = torch.cat((sums, weights[:, whole:].sum(-1, keepdim=True)), dim=1)
    return sums.to(torch.float64).mul_(_ONE).to(torch.int64)


def _top(peaks: Tensor, rows: Tensor | None) -> Tensor:
    """Each row's largest logit, float32 [R, 1]."""
    chosen = peaks if rows is None else peaks.index_select(0, rows)
    return chosen.amax(-1, keepdim=True)


def _select(group: CutRows, local: Tensor, everything: Tensor, count: int) -> CutRows:
    """Some rows of `group`, by their places in it, to be tried with `count` candidates."""

    def pick(column: Tensor | None) -> Tensor | None:
        return None if column is None else column.index_select(0, local)

    by_mass = None
    if group.by_mass is not None:
        marks = torch.zeros(group.temperature.size(0), dtype=torch.bool, device=local.device)
        marks.index_fill_(0, group.by_mass, True)
        by_mass = marks.index_select(0, local).nonzero().squeeze(1)
    return CutRows(
        rows=(everything if group.rows is None else group.rows).index_select(0, local),
        count=count,
        temperature=group.temperature.index_select(0, local),
        top_k=pick(group.top_k),
        top_p=pick(group.top_p),
        min_p=pick(group.min_p),
        typical_p=pick(group.typical_p),
        closed=pick(group.closed),
        floored=pick(group.floored),
        by_mass=by_mass,
    )


def _logprobs(values: Tensor, peaks: Tensor, ids: Tensor, asked: LogprobRows) -> TokenLogprobs:
    chosen, picked = values, ids
    if asked.rows is not None:
        chosen, picked = values.index_select(0, asked.rows), ids.index_select(0, asked.rows)
    norm = chosen.logsumexp(-1, keepdim=True)
    best = top_candidates(values, peaks, max(asked.count, 1), asked.rows)
    return TokenLogprobs(
        places=asked.places,
        chosen=(chosen.gather(1, picked.unsqueeze(1)) - norm).squeeze(1),
        top=(best.values - norm)[:, : asked.count],
        top_ids=best.ids[:, : asked.count],
    )
