"""Experiments on the page: verdict, interval over time, alarms in red."""

import re
import time
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.page.experiments import experiments_section
from strowger_gateway.gateway.experiments.history import (
    ExperimentHistory,
    HistoryRecorder,
    Track,
    intervals_of,
)
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.experiments.report import Report
from strowger_gateway.gateway.statistics.interval_history import Point
from tests.gateway.console.admin.page.crowd import KEY, crowded
from tests.gateway.console.admin.page.trial import DAY_S, EXPERIMENT, ExperimentRecords

asynchronous = pytest.mark.anyio
MEASURED = {"units": 90, "observations": 90, "mean": 0.5}
METRIC = {
    "name": "good", "primary": True, "better": "higher", "relative": False,
    "variants": [
        {"variant": "a", **MEASURED},
        {"variant": "b", **MEASURED, "difference": 0.1, "low": -0.05, "high": 0.25, "p": 0.3},
    ],
}  # fmt: skip
REPORT = {
    "experiment": "e", "model": "m", "assign_by": "user", "aa": False, "paused": False,
    "reason": "", "epoch": 2, "kind": "undecided", "sentence": "b: not enough data",
    "mismatch": False, "split_p": 0.6, "excluded": 3, "findings": [], "harm_limits": [],
    "arms": [
        {"name": "a", "backend": "p/1", "weight": 50, "units": 90, "requests": 100,
         "fallbacks": 5, "fallback_share": 0.05},
        {"name": "b", "backend": "p/2", "weight": 50, "units": 90, "requests": 100,
         "fallbacks": 0, "fallback_share": 0.0},
    ],
    "metrics": [METRIC],
}  # fmt: skip


def report(**changes: object) -> Report:
    return msgspec.convert({**REPORT, **changes}, Report)


def shown(one: Report) -> str:
    points = (1000.0, 1060.0) if intervals_of(one) else ()
    course = tuple(Point(time=at, intervals=intervals_of(one)) for at in points)
    track = Track(report=one, points=course)
    return experiments_section(ExperimentHistory(tracks={"e": track}), 1060.0)


def test_response_rates_that_differ_are_an_alarm_above_the_verdict() -> None:
    response = {
        "variant": "b", "metric": "good", "rate": 0.1, "control": 0.13, "low": -0.04,
        "high": -0.02, "sentence": "RESPONSE RATES DIFFER: b & a",
    }  # fmt: skip
    noted = [{**MEASURED, "variant": "a"}, {**MEASURED, "variant": "b", "notes": ["39 % of b's"]}]

    page = shown(report(responses=[response], metrics=[{**METRIC, "variants": noted}]))

    alarm = '<p class="verdict bad">RESPONSE RATES DIFFER: b &amp; a.</p>'
    assert page.index(alarm) < page.index("b: not enough data.")
    assert "votes per request on good: 0.1 of b, 0.13 of control" in page
    assert "<li>39 % of b&#39;s.</li>" in page


def test_contracts_are_shown_with_what_their_caps_did_and_what_breaks_them() -> None:
    contract = {"name": "good", "type": "number", "range": [0, 9], "cap": 5, "higher_is": "worse"}
    metric = {**METRIC, "contract": contract, "capped": 1200, "outside": [-3, 5]}

    page = shown(report(metrics=[metric]))

    assert "<li>good: a number from 0 to 9, higher is worse, capped at 5.</li>" in page
    assert "<li>good: 1,200 votes count as the cap, 5.</li>" in page
    assert "<li>good: there are votes from -3 to 5, outside of what it takes; to find them:" in page
    assert "strowger experiments votes e --metric good --outside." in page


def test_the_vote_rate_is_a_row_if_there_are_votes() -> None:
    without = [{"variant": one, **MEASURED, "mean": 0.0} for one in ("a", "b")]
    rate = {**METRIC, "name": "vote_rate", "primary": False}

    assert "vote_rate" not in shown(report(metrics=[METRIC, {**rate, "variants": without}]))
    assert "vote_rate" in shown(report(metrics=[METRIC, rate]))


def test_without_experiments_there_is_no_heading() -> None:
    assert "Experiments" not in experiments_section(ExperimentHistory(), 0.0)


def test_the_verdict_and_the_interval_are_text_and_numbers() -> None:
    page = shown(report())

    assert '<p class="verdict ">b: not enough data.</p>' in page
    assert "difference from control, higher is better" in page
    assert "+0.1 (−0.05 to +0.25)" in page
    assert "3 requests excluded" in page


@pytest.mark.parametrize("kind", ["ratio_mismatch", "harm_limit", "worse", "unsound"])
def test_an_alarm_is_red(kind: str) -> None:
    page = shown(report(kind=kind, mismatch=kind == "ratio_mismatch", sentence="look here"))

    assert '<p class="verdict bad">look here.</p>' in page


def test_a_pause_says_why() -> None:
    page = shown(report(paused=True, reason="by <the> operator"))

    assert "Paused: by &lt;the&gt; operator. The control serves all requests." in page


def test_before_there_is_an_interval_the_page_says_what_it_waits_for() -> None:
    metrics = [{**METRIC, "variants": [{"variant": "a", **MEASURED}]}]

    page = shown(report(metrics=metrics))

    assert "No interval yet" in page


ROW = re.compile(r"<tr>\n(<th scope.*?)</tr>", re.DOTALL)


def metric_rows(page: str) -> list[list[str]]:
    """The cells of the last table."""
    rows = ROW.findall(page.rpartition("<tbody>")[2])
    return [re.findall(r">([^<]+)</(?:t[hd]|span)>", row) for row in rows]


def test_a_metric_of_only_one_arm_is_listed_with_what_is_missing() -> None:
    nothing = {"units": 0, "observations": 0, "mean": None, "missing": "no votes yet"}
    some = {"units": 5, "observations": 5, "mean": 4.0}
    late = {**nothing, "missing": "no values yet"}
    metrics = [
        METRIC,
        {**METRIC, "name": "stars", "primary": False,
         "variants": [{"variant": "a", **some}, {"variant": "b", **nothing}]},
        {**METRIC, "name": "cost_usd", "primary": False,
         "variants": [{"variant": "a", **late}, {"variant": "b", **late}]},
        {**METRIC, "name": "ttft_ms", "primary": False, "worse_by": 0.1,
         "variants": [{"variant": "a", **late}, {"variant": "b", **late}]},
    ]  # fmt: skip

    page = shown(report(metrics=metrics))

    assert metric_rows(page)[1:] == [
        ["stars", "b", "–", "4", "–", "no votes yet"],
        ["ttft_ms", "b", "–", "–", "–", "no values yet"],
    ]


def test_what_the_configuration_has_no_more_is_a_line_with_all_of_it_beneath() -> None:
    one = report(removed=True, last_request=1060.0 - 3 * 86_400, paused=True, reason="it was bad")
    course = tuple(Point(time=at, intervals=intervals_of(one)) for at in (0.0, 460.0))

    page = experiments_section(
        ExperimentHistory(removed={"e": Track(report=one, points=course)}), 1060.0
    )

    assert "Removed from the configuration" in page
    assert '<details id="over-e">' in page
    assert "removed from the configuration · last request 3 d 0 h ago" in page
    assert "<span>17 min ago</span><span>10 min ago</span>" in page
    assert "The control serves all requests" not in page


def test_while_the_store_is_unreachable_the_page_says_so() -> None:
    page = experiments_section(ExperimentHistory(unavailable="PostgreSQL at db/x: <gone>"), 0.0)

    assert "Store unreachable" in page
    assert "PostgreSQL at db/x: &lt;gone&gt;" in page


@asynchronous
async def test_what_the_store_has_is_on_the_page_of_every_process(
    tmp_path: Path,
) -> None:
    """One process writes the history; another (after a restart, for example) reads the store."""
    records = ExperimentRecords(tmp_path)
    async with crowded(tmp_path, more=EXPERIMENT, equip=records.equip) as up:
        state: Gateway = up.state
        await records.add_history(state, time.time(), steps=3, units=120)
        jobs = state.side(ExperimentsSide).jobs
        assert jobs is not None
        jobs.history = HistoryRecorder(records.store, lambda: state.runtime.config.experiments)
        await jobs.history.update()
        async with httpx.AsyncClient(
            base_url=up.url, headers={"authorization": f"Bearer {KEY}"}, timeout=60
        ) as client:
            page = (await client.get("/admin/live")).text
    records.store.close()

    assert "larger-model" in page
    assert "Removed from" not in page
    assert 'class="band c0"' in page
    assert "3 min ago" in page
    assert "header:x-session-id" in page


@asynchronous
async def test_an_experiment_survives_its_removal_from_the_configuration(tmp_path: Path) -> None:
    records, at = ExperimentRecords(tmp_path), time.time()
    records.add_removed(at, units=40)
    async with crowded(tmp_path, equip=records.equip) as up:
        state: Gateway = up.state
        jobs = state.side(ExperimentsSide).jobs
        assert jobs is not None
        await jobs.history.update()
        async with httpx.AsyncClient(
            base_url=up.url, headers={"authorization": f"Bearer {KEY}"}, timeout=60
        ) as client:
            page = (await client.get("/admin/live")).text
            (row,) = (await client.get("/admin/experiments")).json()["experiments"]
            one = await client.get("/admin/experiments/shorter-answers")
            none = await client.get("/admin/experiments/shorter-answer")
            paused = await client.post("/admin/experiments/shorter-answers/pause")
            key = {"key": "", "reason": "a test"}
            left = await client.post("/admin/experiments/shorter-answers/exclude", json=key)
            await jobs.history.update()
            later = (await client.get("/admin/live")).text
    records.store.close()

    assert '<details id="over-shorter-answers">' in page
    assert (row["name"], row["model"], row["removed"]) == ("shorter-answers", "assistant", True)
    assert (row["variants"], row["primary"]) == (["control", "shorter"], "solved")
    assert row["last_request"] == pytest.approx(at - 3 * DAY_S)
    assert (one.json()["removed"], one.json()["arms"][1]["units"]) == (True, 120)
    assert none.json()["error"]["message"].endswith('did you mean "shorter-answers"?')
    assert (paused.status_code, paused.json()["error"]["code"]) == (404, "experiment_not_found")
    assert left.status_code == 200
    assert "no key is excluded (a test)" in later
    assert "is excluded (a test)" not in page
