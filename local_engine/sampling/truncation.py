"""Apply min_p, typical_p, top-k and top-p to each row, with few candidates first.

The filters apply in that order after temperature, each to the previous one's survivors.
"""

import torch
from msgspec import Struct
from torch import Tensor

from strowger_gateway.local_engine.sampling.batch_params import TIERS, CutRows
from strowger_gateway.local_engine.sampling.exact_device import at, doubles, rows_at
from strowger_gateway.local_engine.sampling.top_candidates import BLOCK, top_candidates

UNIT = float(1 << 40)
_UNIT = torch.tensor(UNIT, dtype=torch.float64)


class Survivors(Struct, frozen=True, kw_only=True):
    """Tokens that may be drawn, for R rows; on the device that computes in float64.

    rows: int64 [R] places in the batch; `None` is all of it. ids: int64 [R, K].
    weights: float64 [R, K], proportional to the probabilities; 0 for what was cut.
    """

    rows: Tensor | None
    ids: Tensor
    weights: Tensor


def survivors(values: Tensor, peaks: Tensor, group: CutRows) -> list[Survivors]:
    """Return the survivors of the filters. If a row appears twice, the later entry is valid.

    values: float32 [B, V] logits. peaks: `block_maxima(values)`.
    Rows without top-k whose candidates do not cover their mass are repeated with more candidates
    (`TIERS`), finally with all; to know which, the host waits for the device.
    """
    home = group.temperature.device
    best = top_candidates(values, peaks, group.count, rows_at(group.rows, values.device))
    ids, exact = at(best.ids, home), doubles(best.values, home)
    # Candidates are sorted: the first is the row's maximum, and its weight is 1.
    weights = exact.sub(exact.narrow(1, 0, 1)).div_(group.temperature).exp_()
    short = _cut(weights, group, _whole_masses(values, peaks, group))
    found = [Survivors(rows=group.rows, ids=ids, weights=weights)]
    if short is None or ids.size(1) == values.size(1):
        return found
    again = short.nonzero().squeeze(1)
    if again.numel() > 0:
        wider = next((tier for tier in TIERS if tier > group.count), values.size(1))
        found.extend(survivors(values, peaks, _select(group, again, wider)))
    return found


def block_masses(
    values: Tensor, peaks: Tensor, rows: Tensor | None, temperature: Tensor, *, unscaled: bool
) -> Tensor:
    """Return exp((logit - row's largest) / temperature) by block: int64 [R, blocks] of 2**-40.

    temperature: float64 [R, 1]; the result is on its device. unscaled: all are 1. Integers, because
    their sum does not depend on the order in which a device adds them.
    """
    chosen = values if rows is None else values.index_select(0, rows)
    weights = chosen - largest(peaks, rows)
    if not unscaled:
        weights.div_(at(temperature.to(torch.float32), values.device))
    weights.exp_()
    count, vocabulary = weights.shape
    blocks = vocabulary // BLOCK
    sums = weights[:, : blocks * BLOCK].reshape(count, blocks, BLOCK).sum(-1)
    if blocks * BLOCK < vocabulary:
        rest = weights[:, blocks * BLOCK :].sum(-1, keepdim=True)
        sums = torch.cat((sums, rest), dim=1)
    return doubles(sums, temperature.device).mul_(UNIT).to(torch.int64)


def largest(peaks: Tensor, rows: Tensor | None) -> Tensor:
    """Return each row's largest logit, float32 [R, 1]."""
    chosen = peaks if rows is None else peaks.index_select(0, rows)
    return chosen.amax(-1, keepdim=True)


def _whole_masses(values: Tensor, peaks: Tensor, group: CutRows) -> Tensor | None:
    """Return the whole vocabulary's mass of the rows `group.by_mass`, int64 [M, 1]."""
    local = group.by_mass
    if local is None or group.count >= values.size(1):
        return None
    rows, heat = group.rows, group.temperature
    if local.numel() < heat.size(0):
        rows = local if rows is None else rows.index_select(0, local)
        heat = heat.index_select(0, local)
    rows = rows_at(rows, values.device)
    masses = block_masses(values, peaks, rows, heat, unscaled=group.unscaled)
    return masses.sum(-1, keepdim=True)


def _cut(weights: Tensor, group: CutRows, total: Tensor | None) -> Tensor | None:
    """Set the weights of filtered tokens to 0. Return bool [R] of the rows with too few candidates,
    or `None` if there can be no such row.

    weights: float64 [R, K], best first, changed in place. total: from `_whole_masses`.
    """
    if group.min_p is not None:
        weights.mul_(weights >= group.min_p)
    if group.typical_p is not None:
        weights.mul_(_typical(weights, group.typical_p))
    if group.inside is not None:
        weights.mul_(group.inside)
    elif group.top_k is not None:
        weights.mul_((weights > 0).cumsum(-1) <= group.top_k)
    ends = None if group.closed is None else (weights.narrow(1, -1, 1) > 0) & ~group.closed
    if group.top_p is None:
        return None if ends is None else ends.squeeze(1)
    # Integers, so that the sums, and with them the cut, are the same on every device.
    masses = weights.mul(_UNIT).to(torch.int64)
    reached = masses.cumsum(-1)
    held = reached.narrow(1, -1, 1)
    whole = held
    if group.by_mass is not None and total is not None:
        alike = total.size(0) == held.size(0)
        whole = total if alike else held.index_copy(0, group.by_mass, total)
    limit = whole * group.top_p
    # Compare the mass before each token, so that the token that reaches the limit stays.
    weights.mul_(reached.sub_(masses) < limit)
    if ends is None:
        return None
    # `reached` lost its own mass above, in place: add it again.
    held = reached.narrow(1, -1, 1) + masses.narrow(1, -1, 1)
    missing = held < limit
    ends &= missing if group.floored is None else missing | group.floored
    return ends.squeeze(1)


def _typical(weights: Tensor, share: Tensor) -> Tensor:
    """Return the tokens whose surprise is nearest to the expected surprise and that hold `share` of
    the mass, bool [R, V]; all if it is 1. https://arxiv.org/abs/2202.00666

    weights: float64 [R, V], the whole vocabulary. share: float64 [R, 1].
    """
    masses = weights.mul(UNIT).to(torch.int64)
    total = masses.sum(-1, keepdim=True)
    surprise = (total / UNIT).log() - weights.log()
    parts = surprise.mul(masses / total).masked_fill_(masses == 0, 0.0)
    expected = parts.mul_(UNIT).to(torch.int64).sum(-1, keepdim=True) / UNIT
    distance = surprise.sub_(expected).abs_().masked_fill_(weights == 0, torch.inf)
    nearest, order = distance.sort(dim=-1, stable=True)
    reached = masses.gather(1, order).cumsum(-1)
    last = (reached < share * total).sum(-1, keepdim=True).clamp_max_(weights.size(1) - 1)
    return (distance <= nearest.gather(1, last)) | (share >= 1)


def _select(group: CutRows, local: Tensor, count: int) -> CutRows:
    """Return some rows of `group`, by their places, for another try with `count` candidates."""

    def pick(column: Tensor | None) -> Tensor | None:
        return None if column is None else column.index_select(0, local)

    by_mass = None
    if group.by_mass is not None:
        marks = torch.zeros(group.temperature.size(0), dtype=torch.bool, device=local.device)
        marks.index_fill_(0, group.by_mass, True)
        by_mass = marks.index_select(0, local).nonzero().squeeze(1)
    return CutRows(
        rows=local if group.rows is None else group.rows.index_select(0, local),
        count=count,
        unscaled=group.unscaled,
        temperature=group.temperature.index_select(0, local),
        top_k=pick(group.top_k),
        top_p=pick(group.top_p),
        min_p=pick(group.min_p),
        typical_p=pick(group.typical_p),
        closed=pick(group.closed),
        floored=pick(group.floored),
        by_mass=by_mass,
    )
