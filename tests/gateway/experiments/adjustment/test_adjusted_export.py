"""Adjusted numbers of a report can be computed from the export, by docs/experiments-statistics.md.

The computation shares no code with the gateway.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.request_observations import PROMPT_ATTRIBUTE
from strowger_gateway.gateway.storage.sql.rows import RequestRow, Row
from strowger_gateway.schemas.secret import Secret
from tests.gateway.experiments.recorded_gateway import config
from tests.gateway.experiments.test_export import (
    ARMS,
    LOGS,
    PLANNED,
    RATES,
    VARIANTS,
    Cells,
    Json,
    Line,
    cells_of,
    close,
    compared,
    exported,
    run,
    shown,
    voted,
    weighted,
)

SHARES = {1: (1.0, 0.0, 0.0), 2: (0.5, 0.25, 0.25), 3: (0.4, 0.3, 0.3)}
Numbers = Sequence[float]
Floats = npt.NDArray[np.float64]


def rows() -> Iterator[Row]:
    """In the first epoch half of the users, all in control; then all of them, twice."""
    chance = np.random.default_rng(8)
    for user in range(400):
        base, taste = chance.lognormal(5, 1), chance.beta(2, 3)
        for epoch, shares in SHARES.items():
            if epoch == 1 and user % 2:
                continue
            variant = VARIANTS[int(chance.choice(3, p=shares))]
            for turn in range(min(1 + int(chance.pareto(2)), 20)):
                tokens = int(base * chance.lognormal(0, 0.5))
                request_id = f"{epoch}-{user}-{turn}"
                measured = user % 5 or epoch != 2
                yield RequestRow(
                    surface="openai",
                    request_id=request_id,
                    time=float(epoch),
                    status=502 if chance.random() < 0.05 else 200,
                    ms=float((50 + tokens) * chance.lognormal(0.1 * (variant == "warm"), 0.4)),
                    completion_tokens=int(chance.integers(1, 400)),
                    cost_usd=(tokens + float(chance.exponential(100))) / 1e6,
                    experiment="trial",
                    epoch=epoch,
                    variant=variant,
                    unit=f"unit-{user}",
                    attributes={PROMPT_ATTRIBUTE: tokens} if measured else None,
                )
                if chance.random() < 0.4:
                    yield voted(
                        request_id, "thumbs_up", float(chance.random() < taste), boolean=True
                    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    url = f"sqlite:///{folder / 'strowger.db'}"
    more = f"    planned: {PLANNED}\n    adjust: [prompt_tokens, past]"
    file = folder / "config.yaml"
    file.write_text(f"{config('http://127.0.0.1:9/v1', ARMS, more)}\nstore: {{url: '{url}'}}\n")
    store = open_store(Secret(url))
    store.prepare()
    for epoch, shares in SHARES.items():
        weights: dict[str, float] = dict(zip(VARIANTS, shares, strict=True))
        store.epoch("trial", str(epoch), weights, float(epoch))
    found = list(rows())
    store.import_rows("file", 0, len(found), found)
    store.close()
    return file


def values_of(
    lines: Sequence[Line], metric: str, baseline: Sequence[int]
) -> list[Mapping[tuple[int, str, str], float]]:
    """Of the tokens and the past, by epoch, variant and unit."""
    prompts = cells_of(lines, "log_prompt_tokens" if metric in LOGS else "prompt_tokens")
    before: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    cells = cells_of(lines, metric)
    for (epoch, _), units in cells.items():
        for unit, (count, total) in units.items():
            if epoch in baseline:
                before[unit][0] += count
                before[unit][1] += total
    return [
        {
            (epoch, variant, unit): total / count
            for (epoch, variant), units in prompts.items()
            for unit, (count, total) in units.items()
        },
        {
            (epoch, variant, unit): before[unit][1] / before[unit][0]
            for (epoch, variant), units in cells.items()
            for unit in units
            if unit in before
        },
    ]


def adjusted(
    lines: Sequence[Line], metric: str, baseline: Sequence[int]
) -> tuple[Cells, Cells, float, Sequence[Numbers]]:
    """The cells that are compared, without and with the adjustment; m; and of each covariate
    theta, phi, the mean and the share."""
    raw = {
        place: units
        for place, units in cells_of(lines, metric).items()
        if place[0] not in baseline and len(units) >= 10
    }
    keys = [(*place, unit) for place, units in raw.items() for unit in units]
    capped = weighted(raw)
    w = np.array([float(capped[epoch, arm][unit][0]) for epoch, arm, unit in keys])
    x = np.array([capped[epoch, arm][unit][1] for epoch, arm, unit in keys])
    places = sorted(raw)
    place = np.array([places.index((epoch, arm)) for epoch, arm, _ in keys])
    n = np.array([float(len(raw[at])) for at in places])
    whole = np.array([sum(len(raw[at]) for at in places if at[0] == epoch) for epoch, _ in places])
    f = (n * (whole - n) / whole / np.bincount(place, w))[place]

    def centred(column: Floats) -> Floats:
        means = np.bincount(place, column) / np.bincount(place, w)
        return np.asarray(f * (column - means[place] * w), np.float64)

    columns: list[tuple[int, int, Floats]] = []
    about: list[list[float]] = []
    for covariate, values in enumerate(values_of(lines, metric, baseline)):
        has = np.array([float(key in values) for key in keys])
        z = np.array([values.get(key, 0.0) for key in keys])
        mean, share = float((w * z) @ has / (w @ has)), float(w @ has / w.sum())
        assert has.sum() >= 25
        columns.append((covariate, 0, w * (z - mean) * has))
        if (1 - has).sum() >= 25:
            columns.append((covariate, 1, w * (has - share)))
        about.append([0.0, 0.0, mean, share])
    scales = [float(np.linalg.norm(centred(column))) for _, _, column in columns]
    left = np.stack([centred(one[2]) / by for one, by in zip(columns, scales, strict=True)], 1)
    fitted = np.asarray(np.linalg.lstsq(left, centred(x), rcond=None)[0], np.float64)
    off = np.zeros_like(x)
    for (covariate, which, column), by, scale in zip(columns, fitted, scales, strict=True):
        about[covariate][which] = float(by) / scale
        off += float(by) / scale * column
    kept: defaultdict[tuple[int, str], dict[str, tuple[float, float]]] = defaultdict(dict)
    for (epoch, arm, unit), mean in zip(keys, (x - off) / w, strict=True):
        count = raw[epoch, arm][unit][0]
        kept[epoch, arm][unit] = count, count * float(mean)
    return raw, kept, sqrt(float(off @ off) / float(w @ w)), about


def test_adjusted_numbers_can_be_computed_from_the_export(file: Path) -> None:
    report = cast(Json, msgspec.json.decode(run(file, "report", "trial", "--json").stdout))
    lines = exported(file)
    assert report["baseline_epochs"] == [1]
    narrowed = 0

    for metric in ("cost_usd", "latency_ms", "output_tokens", "error", "vote_rate", "thumbs_up"):
        (of_report,) = [one for one in report["metrics"] if one["name"] == metric]
        assert of_report["adjustment"]["used"], of_report["adjustment"]["sentences"]
        raw, kept, moved, about = adjusted(lines, metric, [1])
        assert of_report["adjustment"]["moved"] == close(moved)
        for covariate, numbers in zip(of_report["adjustment"]["covariates"], about, strict=True):
            keys = ("theta", "missing", "mean", "share")
            for key, value in zip(keys, numbers, strict=True):
                assert covariate[key] == close(value)
        for variant in VARIANTS[1:]:
            row = shown(report, metric, variant)
            ends = (0 - moved, 1 + moved) if metric in RATES else None
            with_it = compared(kept, variant, ends)
            without = compared(raw, variant, (0, 1) if metric in RATES else None)
            for ours, theirs in ((row, with_it), (row["unadjusted"], without)):
                for key, value in theirs.items():
                    if value is not None and key != "p" and metric in LOGS:
                        value = float(np.expm1(value))
                    assert ours[key] == close(value)
            narrowed += row["high"] - row["low"] < 0.8 * (
                row["unadjusted"]["high"] - row["unadjusted"]["low"]
            )
    assert narrowed >= 4
