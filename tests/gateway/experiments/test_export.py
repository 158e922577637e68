"""`strowger experiments export`: the report can be recomputed from its rows alone.

The computation is written from docs/experiments-statistics.md and shares no code with the gateway.
"""

import csv
import io
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import exp, expm1, inf, log, sqrt
from pathlib import Path
from threading import Thread
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner, Result

from strowger_gateway.gateway.cli.main import strowger
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow, RequestRow, Row
from strowger_gateway.schemas.secret import Secret
from tests.gateway.experiments.recorded_gateway import config

ARMS = (
    "{name: control, backend: a/old, weight: 40}, {name: warm, backend: a/new, weight: 30}, "
    "{name: cold, backend: a/backup, weight: 30}"
)
SHARES = {1: (0.7, 0.15, 0.15), 2: (0.4, 0.3, 0.3), 3: (0.4, 0.3, 0.3)}
VARIANTS = ("control", "warm", "cold")
USERS = {1: 500, 2: 600, 3: 12}
"""Of which the first ones come back in every epoch; the third epoch has too few of them."""
LOGS = {"ttft_ms", "latency_ms"}
RATES = {"error", "fallback", "vote_rate", "thumbs_up"}
ALPHA, PLANNED = 0.05, 3_000
WIDE = 10_000
"""The end of the range of `edits`, of which none is above 17."""

Line = tuple[str, str, int, str, int, float]
"""Metric, unit, epoch, variant, count, total."""
Json = Mapping[str, Any]


def rows() -> list[Row]:
    chance = np.random.default_rng(16)
    found: list[Row] = []
    for epoch, users in USERS.items():
        for user in range(users):
            variant = VARIANTS[int(chance.choice(3, p=SHARES[epoch]))]
            taste = chance.beta(2, 4)
            for turn in range(min(1 + int(chance.pareto(1.2)), 90)):
                request_id = f"{epoch}-{user}-{turn}"
                failed = bool(chance.random() < 0.04 + 0.03 * (variant == "cold"))
                found.append(
                    RequestRow(
                        surface="openai",
                        request_id=request_id,
                        time=float(epoch),
                        status=502 if failed else 200,
                        ms=float(chance.lognormal(5 + 0.1 * (variant == "warm"), 0.5)),
                        stream=user % 2 == 0,
                        ttft_ms=float(chance.lognormal(3, 0.3)) if user % 2 == 0 else None,
                        completion_tokens=int(chance.integers(1, 400)),
                        cost_usd=float(chance.pareto(2.5)) / 100,
                        experiment="trial",
                        epoch=epoch,
                        variant=variant,
                        unit=f"unit-{user}",
                    )
                )
                if chance.random() < 0.3:
                    content = chance.random() < taste + 0.1 * (variant == "warm")
                    found.append(voted(request_id, "thumbs_up", float(content), boolean=True))
                if chance.random() < 0.3:
                    found.append(voted(request_id, "edits", float(chance.integers(0, 18))))
                if chance.random() < 0.2:
                    found.append(voted(request_id, "stars", float(chance.integers(1, 6))))
    return found


def voted(request_id: str, metric: str, value: float, *, boolean: bool = False) -> FeedbackRow:
    return FeedbackRow(
        request_id=request_id, time=9.0, key="", metric=metric, value=value, boolean=boolean
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    url = f"sqlite:///{folder / 'strowger.db'}"
    text = config(
        "http://127.0.0.1:9/v1",
        arms=ARMS,
        more=f"    planned: {PLANNED}",
        other=f"metrics: [{{name: edits, type: number, range: [0, {WIDE}]}}]",
    )
    file = folder / "config.yaml"
    file.write_text(f"{text}\nstore: {{url: '{url}'}}\n")
    store = open_store(Secret(url))
    store.prepare()
    for epoch, shares in SHARES.items():
        store.epoch("trial", str(epoch), dict(zip(VARIANTS, shares, strict=True)), float(epoch))
    found = rows()
    store.import_rows("file", 0, len(found), found)
    store.close()
    return file


def run(file: Path, *words: str) -> Result:
    return CliRunner().invoke(strowger, ["experiments", *words, "--config", str(file)])


def exported(file: Path) -> list[Line]:
    lines = list(csv.reader(io.StringIO(run(file, "export", "trial").stdout)))
    assert lines[0] == [
        *("experiment", "metric", "unit", "epoch", "variant"),
        *("count", "total", "least", "most", "excluded"),
    ]
    assert {line[0] for line in lines[1:]} == {"trial"}
    return [
        (metric, unit, int(epoch), variant, int(count), float(total))
        for _, metric, unit, epoch, variant, count, total, _, _, excluded in lines[1:]
        if excluded == "0"
    ]


Cells = Mapping[tuple[int, str], Mapping[str, tuple[float, float]]]
"""By epoch and variant: by unit its count or weight, and its total."""


def cells_of(lines: Sequence[Line], metric: str) -> Cells:
    found: dict[tuple[int, str], dict[str, tuple[float, float]]] = defaultdict(dict)
    for name, unit, epoch, variant, count, total in lines:
        if name == metric:
            found[epoch, variant][unit] = (count, total)
    return found


def weighted(cells: Cells) -> Cells:
    """By unit its weight and its weight times its mean: a cap per epoch, for all variants."""
    lowest = dict.fromkeys(USERS, inf)
    for (epoch, _), units in cells.items():
        counts = sorted((count for count, _ in units.values()), reverse=True)
        if len(counts) >= 50:
            steps = [(sum(counts[k:]) / (50 - k), counts[k]) for k in range(50)]
            lowest[epoch] = min(lowest[epoch], next(cap for cap, most in steps if most <= cap))
        elif len(counts) >= 10:
            lowest[epoch] = min(lowest[epoch], counts[-1])
    return {
        place: {
            unit: (min(count, lowest[place[0]]), min(count, lowest[place[0]]) * total / count)
            for unit, (count, total) in units.items()
        }
        for place, units in cells.items()
    }


def mean(cells: Cells, epochs: Sequence[int], variant: str) -> float:
    both = [pair for epoch in epochs for pair in cells.get((epoch, variant), {}).values()]
    return sum(total for _, total in both) / sum(count for count, _ in both)


def compared(
    observed: Cells, treatment: str, bounds: tuple[float, float] | None
) -> dict[str, float | None]:
    """The stratified difference, its interval and p-value, if there are enough units for them."""
    cells = weighted(observed)
    used = [
        epoch
        for epoch in USERS
        if min(len(cells.get((epoch, arm), {})) for arm in ("control", treatment)) >= 10
    ]
    arms = [(epoch, arm) for epoch in used for arm in ("control", treatment)]
    sent = {place: sum(count for count, _ in cells[place].values()) for place in arms}
    raw = {place: sum(count for count, _ in observed[place].values()) for place in arms}
    ends = [(raw[epoch, "control"], raw[epoch, treatment]) for epoch in used]
    time = sum(one * other / (one + other) for one, other in ends)
    alpha = ALPHA / 2
    spent = 2 * log(1 / alpha)
    rho = PLANNED / (4 * len(VARIANTS)) / (spent + log(1 + spent))
    reach = sqrt((time + rho) * log((time + rho) / (rho * alpha**2)) / time)

    own = [total / count for place in arms for count, total in cells[place].values()]
    pairs = apart_by = spread = 0.0
    parts: defaultdict[str, float] = defaultdict(float)
    weights: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for epoch, arm in arms:
        units, weight = cells[epoch, arm], sent[epoch, arm]
        sizes = [len(cells[epoch, one]) for one in ("control", treatment)]
        h = sizes[0] * sizes[1] / sum(sizes)
        pairs += h / 2
        centre = mean(cells, [epoch], arm)
        sign = -1 if arm == "control" else 1
        apart_by += sign * h * centre
        squares = 0.0
        for unit, (count, total) in units.items():
            part = sign * h * (total - centre * count) / weight
            parts[unit] += part
            weights[arm][unit] += h * count / weight
            squares += part**2
        size = sum(count**2 for count, _ in units.values()) / weight
        added = 1.5 * size**2 * apart(centre, (min(own), max(own)))
        if bounds is not None:
            mine = observed[epoch, arm]
            single = sum(count**2 / mine[unit][0] for unit, (count, _) in units.items())
            added += reach**2 / 3 * single / raw[epoch, arm] * apart(centre, bounds)
        spread += squares / (len(units) - 1) + (h / weight) ** 2 * added
    spread += sum(part**2 for part in parts.values())
    difference, error = apart_by / pairs, sqrt(spread) / pairs
    effective = [pairs**2 / sum(one**2 for one in of_arm.values()) for of_arm in weights.values()]
    if min(effective) < 25:
        return {"difference": difference, "low": None, "high": None, "p": None}
    walked = difference / error * sqrt(time)
    p = 2 * sqrt((time + rho) / rho) * exp(-(walked**2) / (2 * (time + rho)))
    low, high = difference - reach * error, difference + reach * error
    return {"difference": difference, "low": low, "high": high, "p": min(1.0, p)}


def apart(centre: float, ends: tuple[float, float]) -> float:
    return sum((end - centre) ** 2 for end in ends)


def narrowed(cells: Cells, file: Path) -> tuple[float, float]:
    """The range that the interval of `edits` uses: its declared one costs too much."""
    columns = list(csv.DictReader(io.StringIO(run(file, "export", "trial").stdout)))
    ends = [row for row in columns if row["metric"] == "edits"]
    farthest = max(abs(float(row[end])) for row in ends for end in ("least", "most"))
    limit = next(
        step * 10**power
        for power in range(9)
        for step in (1, 2, 5)
        if step * 10**power >= 2 * farthest
    )
    costs: list[float] = []
    for treatment in VARIANTS[1:]:
        widths: list[float] = []
        for bounds in (None, (0.0, float(WIDE))):
            found = compared(cells, treatment, bounds)
            low, high = found["low"], found["high"]
            assert low is not None
            assert high is not None
            widths.append(high - low)
        costs.append(1 - widths[0] / widths[1])
    assert max(costs) > 0.25
    return 0.0, float(limit)


def shown(report: Json, metric: str, variant: str) -> Json:
    (found,) = [one for one in report["metrics"] if one["name"] == metric]
    (row,) = [one for one in found["variants"] if one["variant"] == variant]
    return cast(Json, row)


def test_every_number_of_the_report_can_be_computed_from_the_export(file: Path) -> None:
    report = cast(Json, json.loads(run(file, "report", "trial", "--json").stdout))
    lines = exported(file)

    metrics = {one["name"] for one in report["metrics"]}
    assert metrics == {line[0] for line in lines} >= {"stars", *LOGS, *RATES}
    intervals = 0
    for metric in metrics:
        cells = cells_of(lines, metric)
        for variant in VARIANTS:
            row = shown(report, metric, variant)
            centre = mean(weighted(cells), list(USERS), variant)
            own = [cells.get((epoch, variant), {}) for epoch in USERS]
            assert row["units"] == sum(len(units) for units in own)
            assert row["observations"] == sum(c for units in own for c, _ in units.values())
            assert row["mean"] == pytest.approx(exp(centre) if metric in LOGS else centre)
            if variant != "control":
                bounds = (0.0, 1.0) if metric in RATES else None
                if metric == "edits":
                    bounds = narrowed(cells, file)
                    assert bounds == (0, 50)
                found = compared(cells, variant, bounds)
                for key, value in found.items():
                    if value is not None and key != "p" and metric in LOGS:
                        value = expm1(value)
                    assert row[key] == close(value)
                intervals += found["low"] is not None
    assert intervals > len(metrics)
    (edits,) = [one for one in report["metrics"] if one["name"] == "edits"]
    assert (edits["range"]["limited"], edits["range"]["limit"]) == (True, 50)
    words = " ".join(run(file, "report", "trial").output.split())
    cost = f"costs {100 * edits['range']['cost']:.0f} % of the interval's width"
    assert f"edits: the range 0 to 10000 {cost}; a cap at 50 would cost" in words
    assert "The interval is therefore that of the mean of values up to 50" in words


def close(value: float | None) -> object:
    return None if value is None else pytest.approx(value, rel=1e-6, abs=1e-9)


def test_the_split_and_the_requests_can_be_counted_in_the_export(file: Path) -> None:
    report = cast(Json, json.loads(run(file, "report", "trial", "--json").stdout))

    errors = [line for line in exported(file) if line[0] == "error"]

    first: dict[str, tuple[int, str]] = {}
    for _, unit, epoch, variant, _, _ in sorted(errors, key=lambda line: line[2]):
        first.setdefault(unit, (epoch, variant))
    for arm in report["arms"]:
        assert arm["requests"] == sum(line[4] for line in errors if line[3] == arm["name"])
        assert arm["units"] == sum(variant == arm["name"] for _, variant in first.values())


def test_parquet_has_the_same_rows(file: Path, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "trial.parquet"

    found = run(file, "export", "trial", "--output", str(target))

    table = parquet.read_table(target)
    lines = exported(file)
    names = ("metric", "unit", "epoch", "variant", "count", "total")
    assert list(zip(*(table.column(name).to_pylist() for name in names), strict=True)) == lines
    assert found.stderr == f"{target}: {len(lines):,} rows\n"
    assert [path.name for path in tmp_path.iterdir()] == ["trial.parquet"]


def test_without_pyarrow_parquet_says_what_to_install(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(import_module("sys").modules, "pyarrow", None)

    found = run(file, "export", "trial", "-o", str(tmp_path / "trial.parquet"))

    assert found.exit_code == 1
    assert "pip install 'strowger-gateway[parquet]'" in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_csv_file_is_what_standard_output_gets(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "trial.csv"
    run(file, "export", "trial", "-o", str(target))

    assert target.read_bytes() == run(file, "export", "trial").stdout_bytes


def test_a_pipe_and_a_link_stay_what_they_are(file: Path, tmp_path: Path) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link.csv", tmp_path / "target.csv"
    os.mkfifo(pipe)
    target.write_text("old")
    link.symlink_to(target)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert run(file, "export", "trial", "-o", str(pipe)).exit_code == 0
    assert pipe.is_fifo()
    reader.join(30)
    piped = read[0].splitlines()
    assert run(file, "export", "trial", "-o", str(link)).exit_code == 0

    assert link.is_symlink()
    assert piped == target.read_text().splitlines()
    assert piped == run(file, "export", "trial").stdout.splitlines()


@pytest.mark.parametrize("output", ["", "x" * 3000, "missing/folder.csv", "config.yaml/x.csv"])
def test_a_name_that_no_file_can_have_is_reported(file: Path, output: str) -> None:
    name = str(file.parent / output) if output else output

    found = run(file, "export", "trial", "-o", name)

    assert isinstance(found.exception, SystemExit)
    assert "cannot be written" in found.stderr or "needs the name of a file" in found.stderr


def test_what_cannot_be_exported_is_reported(file: Path, tmp_path: Path) -> None:
    nobody = run(file, "export", "trail")
    piped = run(file, "export", "trial", "--format", "parquet")
    nowhere = run(file, "export", "trial", "-o", str(tmp_path / "none" / "trial.csv"))

    assert (nobody.exit_code, piped.exit_code, nowhere.exit_code) == (1, 2, 1)
    assert 'no experiment is named "trail"; did you mean "trial"?' in nobody.stderr
    assert "parquet is binary; give a file with --output" in piped.stderr
    assert "trial.csv: cannot be written: No such file or directory" in nowhere.stderr
