"""Every figure of a report can be computed from the export and docs/experiments-statistics.md."""

import json
from collections.abc import Callable, Mapping
from math import exp, expm1, log1p
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.gateway.experiments.ramped_experiment import ALPHA, NAMES, run, stored
from tests.gateway.experiments.recomputed import (
    BOUNDS,
    LOGS,
    PER_UNIT,
    Found,
    Table,
    adjusted,
    bounds_of,
    compared,
    one_sided,
    tables,
    weights,
)

Json = Mapping[str, Any]


def close(value: float | None, shown: Callable[[float], float] = float) -> object:
    return None if value is None else pytest.approx(shown(value), rel=1e-6, abs=1e-12)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def report(file: Path) -> Json:
    return cast(Json, json.loads(run(file, "report", "trial", "--json")))


@pytest.fixture(scope="module")
def exported(file: Path) -> Mapping[str, Table]:
    return tables(run(file, "export", "trial"))


def same(row: Json, found: Found, shown: Callable[[float], float]) -> None:
    assert row["difference"] == close(found.difference, shown)
    assert row["low"] == close(found.ends[0], shown)
    assert row["high"] == close(found.ends[1], shown)
    assert row["p"] == close(found.p(2))


def test_units_values_means_and_shares(report: Json, exported: Mapping[str, Table]) -> None:
    names = {one["name"] for one in report["metrics"]}
    assert names == exported.keys() - {"prompt_tokens", "log_prompt_tokens"} >= BOUNDS.keys() | LOGS
    capped = 0
    for metric in report["metrics"]:
        rows = exported[metric["name"]]
        w = weights(rows, per_unit=metric["name"] in PER_UNIT)
        x = w * rows.total / rows.count
        for row in metric["variants"]:
            own = rows.of(row["variant"])
            mean = float(x[own].sum() / w[own].sum())
            assert row["units"] == own.sum()
            assert row["observations"] == rows.count[own].sum()
            assert row["mean"] == close(exp(mean) if metric["name"] in LOGS else mean)
            assert row["largest_share"] == close(
                float(rows.count[own].max() / rows.count[own].sum())
            )
            if metric["name"] not in PER_UNIT:
                assert row["capped_units"] == (w < rows.count)[own].sum()
            for one in row["capped"]:
                at = rows.keys.index((one["epoch"], row["variant"], one["unit"]))
                assert (one["observations"], one["weight"]) == (rows.count[at], close(float(w[at])))
                capped += 1
    assert capped


def test_differences_with_and_without_adjustment(
    report: Json, exported: Mapping[str, Table]
) -> None:
    assert report["baseline_epochs"] == [1]
    used = 0
    for metric in report["metrics"]:
        name = metric["name"]
        shown = expm1 if name in LOGS else float
        bounds, per_unit = bounds_of(name, exported[name]), name in PER_UNIT
        found = adjusted(exported, name, [1])
        used += metric["adjustment"]["used"]
        for covariate, about in zip(metric["adjustment"]["covariates"], found.about, strict=True):
            for key, value in about.items():
                assert covariate[key] == close(value)
        assert metric["adjustment"]["moved"] == close(found.moved)
        for row in metric["variants"][1:]:
            variant = row["variant"]
            raw = compared(
                exported[name], variant, alpha=ALPHA / 2, bounds=bounds, per_unit=per_unit
            )
            if not metric["adjustment"]["used"]:
                same(row, raw, shown)
                assert row["unadjusted"] is None
                continue
            moved = None if bounds is None else (bounds[0] - found.moved, bounds[1] + found.moved)
            with_it = compared(
                found.rows, variant, alpha=ALPHA / 2, bounds=moved, w=found.w, per_unit=per_unit
            )
            same(row, with_it, shown)
            same(row["unadjusted"], raw, shown)
            if raw.known:
                assert row["unadjusted"]["explained"] == close(1 - (with_it.error / raw.error) ** 2)
    assert used >= 8


def test_whether_a_metric_is_adjusted(report: Json, exported: Mapping[str, Table]) -> None:
    for metric in report["metrics"]:
        found = adjusted(exported, metric["name"], [1])
        chosen = [column for (k, which), column in found.columns.items() if found.about[k][which]]
        alpha = 0.01 / (len(chosen) * 2)
        differ = False
        for column in chosen:
            for variant in NAMES[1:]:
                one = compared(
                    found.raw.having(column), variant, alpha=alpha, bounds=None, w=found.w
                )
                low, high = one.ends
                differ |= low is not None and high is not None and (low > 0 or high < 0)
        assert metric["adjustment"]["used"] == (not differ)


def test_clauses_of_the_decision(report: Json, exported: Mapping[str, Table]) -> None:
    signs = {"cost_usd": -1, "thumbs_up": 1, "edits": -1, "latency_ms": -1}
    clauses = 0
    for decision in report["decisions"]:
        for clause in decision["clauses"]:
            name = clause["metric"]
            (metric,) = [one for one in report["metrics"] if one["name"] == name]
            found, bounds = adjusted(exported, name, [1]), bounds_of(name, exported[name])
            rows, w = exported[name], None
            if metric["adjustment"]["used"]:
                rows, w = found.rows, found.w
                bounds = (
                    None if bounds is None else (bounds[0] - found.moved, bounds[1] + found.moved)
                )
            effect = compared(rows, decision["variant"], alpha=ALPHA / 2, bounds=bounds, w=w)
            bound = one_sided(effect, signs[name], ALPHA / 2)
            # For times, the gain is minus the change of the logarithm.
            assert clause["at_least"] == close(bound if name not in LOGS else -expm1(-bound))
            margin = 0.0 if clause["by"] is None else -clause["by"]
            if name in LOGS and clause["by"] is not None:
                margin = -log1p(clause["by"])
            assert clause["holds"] == (bound > margin)
            clauses += 1
    assert clauses == 8


def test_votes_per_request(report: Json, exported: Mapping[str, Table]) -> None:
    assert {one["metric"] for one in report["responses"]} == {"thumbs_up", "edits"}
    sent = exported["error"]
    for one in report["responses"]:
        votes = dict(zip(exported[one["metric"]].keys, exported[one["metric"]].count, strict=True))
        voted = sent.having(np.array([float(votes.get(key, 0.0)) for key in sent.keys]))
        w = weights(voted, per_unit=False)
        x = w * voted.total / voted.count
        for key, arm in (("rate", one["variant"]), ("control", "control")):
            own = voted.of(arm)
            assert one[key] == close(float(x[own].sum() / w[own].sum()))
        found = compared(voted, one["variant"], alpha=0.01 / 2, bounds=(0.0, 1.0))
        assert (one["low"], one["high"]) == (close(found.ends[0]), close(found.ends[1]))


def test_counts_of_units_and_requests(report: Json, exported: Mapping[str, Table]) -> None:
    errors = exported["error"]
    first: dict[str, tuple[int, str]] = {}
    for epoch, arm, unit in sorted(errors.keys, key=lambda key: (key[0] == 1, key)):
        first.setdefault(unit, (epoch, arm))
    for arm in report["arms"]:
        assert arm["units"] == sum(one == arm["name"] for _, one in first.values())
        assert arm["requests"] == errors.count[errors.of(arm["name"])].sum()
