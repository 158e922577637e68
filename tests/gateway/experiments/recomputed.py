"""The statistics of a report, in numpy, from the rows of an export.

Written from docs/experiments-statistics.md; it shares no code with the gateway nor with
`test_export`. There is one array for each column of a metric's rows.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from math import erf, exp, log, log1p, sqrt

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tests.gateway.experiments.ramped_experiment import ALPHA, NAMES, PLANNED

BOUNDS = {
    **dict.fromkeys(("error", "fallback", "vote_rate", "thumbs_up", "resolved"), (0.0, 1.0)),
    "stars": (1.0, 5.0),
    "wide": (-1000.0, 100000.0),
    "edits": (0.0, 20.0),
    "plain": (0.0, 1.0),
}
"""`plain` has no contract and only booleans."""

LOGS = {"ttft_ms", "latency_ms"}
NUMBERS = {"stars", "wide", "edits"}
PER_UNIT = {"resolved"}
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Table(Struct, frozen=True, kw_only=True):
    """Rows of one metric that are not excluded, one array each. place: epoch and variant."""

    unit: Sequence[str]
    epoch: npt.NDArray[np.int64]
    arm: Sequence[str]
    count: Floats
    total: Floats
    farthest: float = 0.0

    def where(self, chosen: Bools) -> "Table":
        (at,) = np.nonzero(chosen)
        return Table(
            unit=[self.unit[int(i)] for i in at],
            epoch=self.epoch[chosen],
            arm=[self.arm[int(i)] for i in at],
            count=self.count[chosen],
            total=self.total[chosen],
        )

    def having(self, total: Floats, count: Floats | None = None) -> "Table":
        return Table(
            unit=self.unit,
            epoch=self.epoch,
            arm=self.arm,
            count=self.count if count is None else count,
            total=total,
        )

    def of(self, arm: str) -> Bools:
        return np.array([one == arm for one in self.arm], np.bool_)

    @property
    def keys(self) -> list[tuple[int, str, str]]:
        return list(zip(map(int, self.epoch), self.arm, self.unit, strict=True))


def tables(text: str) -> Mapping[str, Table]:
    """Read an export in CSV, without excluded rows, by metric."""
    lines = list(csv.DictReader(io.StringIO(text)))
    assert {line["unit"] for line in lines if line["excluded"] == "1"} >= {"unit-11", "unit-3"}
    found: dict[str, Table] = {}
    for metric in {line["metric"] for line in lines}:
        own = [one for one in lines if one["metric"] == metric and one["excluded"] == "0"]
        found[metric] = Table(
            unit=[one["unit"] for one in own],
            epoch=np.array([int(one["epoch"]) for one in own]),
            arm=[one["variant"] for one in own],
            count=np.array([float(one["count"]) for one in own]),
            total=np.array([float(one["total"]) for one in own]),
            farthest=max(abs(float(one[end])) for one in own for end in ("least", "most")),
        )
    return found


def bounds_of(name: str, rows: Table) -> tuple[float, float] | None:
    """The declared bounds, or what takes the place of a range that is too wide."""
    declared = BOUNDS.get(name)
    if name not in NUMBERS or declared is None:
        return declared
    steps = [step * 10.0**power for power in range(-3, 9) for step in (1, 2, 5)]
    limit = next(one for one in steps if one >= 2 * rows.farthest)
    errors = [
        [compared(rows, variant, alpha=ALPHA / 2, bounds=ends).error for ends in (None, declared)]
        for variant in NAMES[1:]
    ]
    if max(1 - alone / both for alone, both in errors) <= 0.25:
        return declared
    return max(declared[0], -limit), min(declared[1], limit)


def weights(rows: Table, *, per_unit: bool) -> Floats:
    """By the section on what is averaged: one cap for each epoch."""
    if per_unit:
        return np.ones_like(rows.count)
    w = rows.count.copy()
    for epoch in set(map(int, rows.epoch)):
        caps: list[float] = []
        for arm in NAMES:
            n = np.sort(rows.count[(rows.epoch == epoch) & rows.of(arm)])[::-1]
            if 10 <= len(n) < 50:
                caps.append(float(n[-1]))
            elif len(n) >= 50:
                tails = [(float(n[k:].sum()) / (50 - k), float(n[k])) for k in range(50)]
                caps.append(next(cap for cap, largest in tails if largest <= cap))
        here = rows.epoch == epoch
        w[here] = np.minimum(w[here], min(caps, default=np.inf))
    return w


class Found(Struct, frozen=True, kw_only=True):
    difference: float
    error: float
    units: int
    time: float
    effective: float
    rho: float
    reach: float

    @property
    def known(self) -> bool:
        return self.effective >= 25 - 1e-6

    @property
    def ends(self) -> tuple[float | None, float | None]:
        if not self.known:
            return None, None
        far = self.reach * self.error
        return self.difference - far, self.difference + far

    def p(self, among: int) -> float | None:
        if not self.known:
            return None
        s, total = self.difference / self.error * sqrt(self.time), self.time + self.rho
        return min(1.0, among * sqrt(total / self.rho) * exp(-s * s / (2 * total)))


EVEN = PLANNED / (4 * len(NAMES))
"""t* of the page."""


def rho_of(alpha: float, planned: float = EVEN) -> float:
    spent = 2 * log(1 / alpha)
    return planned / (spent + log1p(spent))


def compared(
    rows: Table,
    treatment: str,
    *,
    alpha: float,
    bounds: tuple[float, float] | None,
    per_unit: bool = False,
    w: Floats | None = None,
    planned: float = EVEN,
) -> Found:
    """w: the weights if `rows.total` are totals by weight already."""
    if w is None:
        w = weights(rows, per_unit=per_unit)
        x = w * rows.total / rows.count
    else:
        x = rows.total
    arms = {arm: rows.of(arm) for arm in ("control", treatment)}
    used = [
        epoch
        for epoch in sorted(set(map(int, rows.epoch)))
        if all(((rows.epoch == epoch) & own).sum() >= 10 for own in arms.values())
    ]
    kept = np.isin(rows.epoch, used) & (arms["control"] | arms[treatment])
    own_means = (x / w)[kept]
    n = rows.count
    seen = float(own_means.min()), float(own_means.max())
    time = pairs = moved = 0.0
    number = 0
    for epoch in used:
        raw = [float(n[(rows.epoch == epoch) & own].sum()) for own in arms.values()]
        time += raw[0] * raw[1] / sum(raw)
    rho = rho_of(alpha, planned)
    c = sqrt((time + rho) * log((time + rho) / (rho * alpha**2)) / time)
    parts = np.zeros_like(x)
    pulls = np.zeros_like(x)
    added = 0.0
    for epoch in used:
        sizes = [int(((rows.epoch == epoch) & own).sum()) for own in arms.values()]
        h = sizes[0] * sizes[1] / sum(sizes)
        number += sum(sizes)
        pairs += h
        for sign, own in zip((-1, 1), arms.values(), strict=True):
            cell = (rows.epoch == epoch) & own
            heavy, sent, units = w[cell], n[cell], int(cell.sum())
            whole = float(heavy.sum())
            mean = float(x[cell].sum()) / whole
            moved += sign * h * mean
            parts[cell] = sign * h * (x[cell] - mean * heavy) / whole
            pulls[cell] = h * heavy / whole
            extra = 1.5 * (float((heavy**2).sum()) / whole) ** 2 * away(seen, mean)
            if bounds is not None:
                single = float((heavy**2 / sent).sum()) / float(sent.sum())
                extra += c * c / 3 * single * away(bounds, mean)
            added += float((parts[cell] ** 2).sum()) / (units - 1) + (h / whole) ** 2 * extra
    variance = float((by_unit(rows, parts, kept) ** 2).sum()) + added
    pulled = [float((by_unit(rows, pulls, kept & own) ** 2).sum()) for own in arms.values()]
    return Found(
        difference=moved / pairs,
        error=sqrt(variance) / pairs,
        units=number,
        time=time,
        effective=pairs**2 / max(pulled),
        rho=rho,
        reach=c,
    )


def away(ends: tuple[float, float], mean: float) -> float:
    return (ends[0] - mean) ** 2 + (ends[1] - mean) ** 2


def by_unit(rows: Table, values: Floats, chosen: Bools) -> Floats:
    _, index = np.unique(np.array(rows.unit)[chosen], return_inverse=True)
    return np.asarray(np.bincount(index, values[chosen]), np.float64)


def one_sided(found: Found, sign: int, alpha: float) -> float:
    """The bound of the section on the decision."""
    return sign * found.difference - one_sided_reach(found.time, alpha) * found.error


def one_sided_reach(time: float, alpha: float, planned: float = EVEN) -> float:
    """In standard errors."""
    rho = rho_of(2 * alpha, planned)
    total = time + rho
    low, high = 0.0, 50.0
    for _ in range(200):
        s = (low + high) / 2
        value = 0.5 * log(4 * rho / total) + s * s / 2 + log((1 + erf(s / sqrt(2))) / 2)
        low, high = (s, high) if value < -log(alpha) else (low, s)
    return low * sqrt(total / time)


class Adjusted(Struct, frozen=True, kw_only=True):
    """raw: the rows that are compared. rows: with adjusted totals by weight w."""

    raw: Table
    rows: Table
    w: Floats
    moved: float
    about: Sequence[Mapping[str, float]]
    columns: Mapping[tuple[int, str], Floats]


def adjusted(all_rows: Mapping[str, Table], metric: str, baseline: Sequence[int]) -> Adjusted:
    whole = all_rows[metric]
    sizes: dict[tuple[int, str], int] = {}
    for epoch, arm, _ in whole.keys:
        sizes[epoch, arm] = sizes.get((epoch, arm), 0) + 1
    fits = np.array(
        [
            epoch not in baseline
            and sizes[epoch, arm] >= 10
            and sum(sizes.get((epoch, one), 0) >= 10 for one in NAMES) >= 2
            for epoch, arm, _ in whole.keys
        ]
    )
    raw = whole.where(fits)
    w = weights(raw, per_unit=metric in PER_UNIT)
    x = w * raw.total / raw.count
    places = sorted({place[:2] for place in raw.keys})
    at = np.array([places.index(place[:2]) for place in raw.keys])
    n = np.array([float(sizes[place]) for place in places])
    in_epoch = np.array(
        [sum(sizes[one] for one in places if one[0] == epoch) for epoch, _ in places]
    )
    f = (n * (in_epoch - n) / in_epoch / np.bincount(at, w))[at]

    prompts = all_rows["log_prompt_tokens" if metric in LOGS else "prompt_tokens"]
    tokens = dict(zip(prompts.keys, prompts.total / prompts.count, strict=True))
    before: dict[str, tuple[float, float]] = {}
    for (epoch, _, unit), count, total in zip(whole.keys, whole.count, whole.total, strict=True):
        if epoch in baseline:
            one = before.get(unit, (0.0, 0.0))
            before[unit] = one[0] + count, one[1] + total
    values: list[Mapping[tuple[int, str, str], float]] = [
        tokens,
        {key: before[key[2]][1] / before[key[2]][0] for key in raw.keys if key[2] in before},
    ]
    about: list[dict[str, float]] = []
    columns: dict[tuple[int, str], Floats] = {}
    for k, value in enumerate(values):
        has = np.array([float(key in value) for key in raw.keys])
        z = np.array([value.get(key, 0.0) for key in raw.keys])
        mean, share = float((w * z * has).sum() / (w * has).sum()), float((w * has).sum() / w.sum())
        about.append({"theta": 0.0, "missing": 0.0, "mean": mean, "share": share})
        if has.sum() >= 25:
            columns[k, "theta"] = w * (z - mean) * has
            if (1 - has).sum() >= 25:
                columns[k, "missing"] = w * (has - share)

    def centred(column: Floats) -> Floats:
        means = np.bincount(at, column) / np.bincount(at, w)
        return np.asarray(f * (column - means[at] * w))

    left = np.stack([centred(one) for one in columns.values()], 1)
    scale = np.linalg.norm(left, axis=0)
    fitted = np.asarray(
        np.linalg.lstsq(left / scale, centred(x), rcond=None)[0] / scale, np.float64
    )
    off = np.zeros_like(x)
    for (k, which), by, column in zip(columns, fitted, columns.values(), strict=True):
        about[k][which] = float(by)
        off += by * column
    return Adjusted(
        raw=raw,
        rows=raw.having(x - off),
        w=w,
        moved=sqrt(float((off**2).sum() / (w**2).sum())),
        about=about,
        columns=columns,
    )
