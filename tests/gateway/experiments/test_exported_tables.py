"""The split, what is missing, guards, keys, exclusions and late votes from the export's tables."""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import log1p
from pathlib import Path
from typing import Any, cast

import pytest

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.experiments.harm_limits import HarmLimitMonitor
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.experiments.ramped_experiment import ALPHA, MORE, NAMES, SHARES, run, stored
from tests.gateway.experiments.recomputed import Table, adjusted, bounds_of, compared, tables
from tests.gateway.experiments.recomputed_guards import (
    Line,
    level_of_next,
    more_for_clause,
    more_units,
    seen_by_assignment,
    seen_by_bound,
    seen_by_score,
    split_p,
)

Json = Mapping[str, Any]
LIMITS = {"error": 0.3, "thumbs_up": 0.4, "vote_rate": 0.5, "latency_ms": 2.0, "edits": 15.0}
LIMITED = MORE.replace("    adjust: [prompt_tokens, past]\n", "") + "    smallest: 0.1\n"
DUE = (
    "    harm_limits: ["
    + ", ".join(f"{{metric: {name}, worse_by: {by}}}" for name, by in LIMITS.items())
    + "]\n"
)


class Case:
    """A report and the tables of its export. shares: the store's weights of each epoch."""

    def __init__(self, folder: Path, more: str, shares: Mapping[int, tuple[float, ...]]) -> None:
        self.file = stored(folder, more, shares)
        config = load_config(self.file, {})
        store = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
        assert HarmLimitMonitor(store, every_s=0).check(config.experiments) == ()
        store.close()
        self.report = cast(Json, json.loads(run(self.file, "report", "trial", "--json")))
        self.rows: Mapping[str, Table] = tables(run(self.file, "export", "trial"))

    def table(self, name: str) -> Sequence[Line]:
        text = run(self.file, "export", "trial", "--table", name)
        return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The last epoch has 14 units."""
    return Case(tmp_path_factory.mktemp("few"), LIMITED + DUE, SHARES)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The last epoch has 700 units; the second is split otherwise than its weights say."""
    shares = {**SHARES, 2: (0.62, 0.19, 0.19)}
    del shares[4]
    return Case(tmp_path_factory.mktemp("many"), MORE + DUE, shares)


def close(value: float | None) -> object:
    return None if value is None else pytest.approx(value, rel=1e-6)


def test_the_split(few: Case, many: Case) -> None:
    found = [split_p(case.table("epochs"), case.rows["error"]) for case in (few, many)]

    assert [case.report["split_p"] for case in (few, many)] == [close(one) for one in found]
    assert 0 < found[1] < 1


@pytest.mark.parametrize("smallest", [0.1, None])
def test_units_that_are_missing(few: Case, many: Case, smallest: float | None) -> None:
    case = many if smallest is None else few
    rows, bounds, w = case.rows["thumbs_up"], (0.0, 1.0), None
    if case is many:  # adjusted
        found = adjusted(case.rows, "thumbs_up", [1])
        (metric,) = [one for one in case.report["metrics"] if one["name"] == "thumbs_up"]
        if metric["adjustment"]["used"]:
            rows, w, bounds = found.rows, found.w, (-found.moved, 1 + found.moved)
    seen = [
        more_units(
            compared(rows, arm, alpha=ALPHA / 2, bounds=bounds, w=w),
            smallest=smallest,
            alpha=ALPHA / 2,
        )
        for arm in NAMES[1:]
    ]

    shown = [one["more_units"] for one in case.report["findings"]]
    assert shown == [None if one is None else pytest.approx(one, abs=1) for one in seen]
    assert any(shown)


def test_units_that_clauses_miss(few: Case) -> None:
    signs = {"cost_usd": -1, "thumbs_up": 1, "edits": -1, "latency_ms": -1}
    counted = 0
    for decision in few.report["decisions"]:
        for clause in decision["clauses"]:
            name, by = clause["metric"], clause["by"]
            if clause["holds"]:
                assert clause["more_units"] == 0
                continue
            margin = 0.0 if by is None else -log1p(by) if name == "latency_ms" else -by
            found = compared(
                few.rows[name],
                decision["variant"],
                alpha=ALPHA / 2,
                bounds=bounds_of(name, few.rows[name]),
            )
            more = more_for_clause(found, signs[name] * found.difference - margin, ALPHA / 2)
            shown = clause["more_units"]
            assert shown == (None if more is None else pytest.approx(more, abs=1))
            counted += shown is not None
    assert counted


def test_what_guards_see(few: Case, many: Case) -> None:
    rules: Counter[tuple[str, bool]] = Counter()
    for case, epoch in ((few, 4), (many, 3)):
        for guard in case.report["guards"]:
            name, rule, arm = guard["metric"], guard["rule"], guard["variant"]
            rules[rule, guard["smallest"] is not None] += 1
            if rule == "circuit":
                errors = case.rows["error"]
                here = (errors.epoch == epoch) & errors.of(arm)
                assert guard["units"] == errors.count[here].sum()
                continue
            rows, level = case.rows[name], level_of_next(guard["looks"])
            own = (rows.epoch == epoch) & (rows.of(arm) | rows.of("control"))
            assert guard["units"] == own.sum()
            better = name in ("thumbs_up", "vote_rate")
            if rule == "bound":
                logs = name == "latency_ms"
                limit = log1p(LIMITS[name]) if logs else LIMITS[name]
                seen = seen_by_bound(rows, arm, bounds_of(name, rows), limit)
                shown = guard["smallest"]
                assert (log1p(shown) if logs and shown is not None else shown) == close(seen)
            else:
                by = seen_by_score if rule == "score" else seen_by_assignment
                seen = by(rows, epoch, arm, LIMITS[name], level, more_is_better=better)
                assert guard["smallest"] == close(seen)
    assert {("circuit", True), ("bound", True), ("score", True)} <= rules.keys()
    assert any(rule == "assignment" for rule, _ in rules)


def test_requests_of_variants_and_shares_of_keys(few: Case) -> None:
    epochs, keys, votes = (few.table(name) for name in ("epochs", "keys", "votes"))
    sent: defaultdict[tuple[str, str], int] = defaultdict(int)
    units: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for line in keys:
        if line["excluded"] == "0":
            place = line["variant"], line["key"]
            sent[place] += int(line["requests"])
            units[place].add(line["unit"])
    cast_votes = Counter(
        (line["variant"], line["key"], line["metric"]) for line in votes if line["excluded"] == "0"
    )
    assert sum(int(line["requests"]) for line in epochs) == sum(
        int(line["requests"]) for line in keys
    )
    assert max(float(line["last"]) for line in epochs) == few.report["last_request"]
    for one in few.report["keys"]:
        place = one["variant"], one["key"]
        assert (one["requests"], one["units"]) == (sent[place], len(units[place]))
        for vote in one["votes"]:
            assert vote["votes"] == cast_votes[(*place, vote["metric"])] > 0
    for arm in few.report["arms"]:
        fallbacks = few.rows["fallback"]
        assert arm["fallbacks"] == fallbacks.total[fallbacks.of(arm["name"])].sum()


def test_what_exclusions_leave_out(few: Case) -> None:
    keys = few.table("keys")
    for one in few.report["exclusions"]:
        if one["kind"] == "unit":
            left = {one["name"]}
        else:
            left = {line["unit"] for line in keys if line["key"] == one["name"]}
        own = [line for line in keys if line["unit"] in left]
        assert all(line["excluded"] == "1" for line in own)
        assert (one["units"], one["requests"]) == (
            len(left),
            sum(int(line["requests"]) for line in own),
        )
