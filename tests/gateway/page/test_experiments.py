"""Experiments on the page: a verdict in plain words, an interval that moves, alarms in red."""

import time
from pathlib import Path

import httpx
import msgspec
import pytest

from gateway.admin.page.experiments import experiments_section
from gateway.experiments.course import Point
from gateway.state import Gateway
from gateway.trials.history import History, Track, intervals_of
from gateway.trials.report import Report
from tests.gateway.page.crowd import KEY, crowded
from tests.gateway.page.trial import EXPERIMENT, Told

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
    "mismatch": False, "split_p": 0.6, "excluded": 3, "findings": [], "guardrails": [],
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
    return experiments_section({"e": track}, 1060.0)


def test_without_experiments_there_is_no_heading() -> None:
    assert "Experiments" not in experiments_section({}, 0.0)


def test_the_verdict_and_the_interval_are_in_words_and_in_numbers() -> None:
    page = shown(report())

    assert '<p class="verdict ">b: not enough data.</p>' in page
    assert "difference from control, higher is better" in page
    assert "+0.1 (−0.05 to +0.25)" in page
    assert "3 requests took no part" in page


@pytest.mark.parametrize("kind", ["ratio_mismatch", "guardrail", "worse", "unsound"])
def test_an_alarm_is_red(kind: str) -> None:
    page = shown(report(kind=kind, mismatch=kind == "ratio_mismatch", sentence="look here"))

    assert '<p class="verdict bad">look here.</p>' in page


def test_a_pause_says_why() -> None:
    page = shown(report(paused=True, reason="by <the> operator"))

    assert "Paused: by &lt;the&gt; operator. Control serves everyone." in page


def test_before_there_is_an_interval_the_page_waits_in_words() -> None:
    metrics = [{**METRIC, "variants": [{"variant": "a", **MEASURED}]}]

    page = shown(report(metrics=metrics))

    assert "No interval yet" in page


def test_while_the_store_is_away_the_page_says_so() -> None:
    page = experiments_section({}, 0.0, "PostgreSQL at db/x: <gone>")

    assert "The store is away" in page
    assert "PostgreSQL at db/x: &lt;gone&gt;" in page


@asynchronous
async def test_what_the_store_knows_is_on_the_page_of_whatever_process_shows_it(
    tmp_path: Path,
) -> None:
    """One has written the course; another, after a restart say, has only the store to read."""
    told = Told(tmp_path)
    async with crowded(tmp_path, more=EXPERIMENT, equip=told.equip) as up:
        state: Gateway = up.state
        await told.pass_by(state, time.time(), steps=3, units=120)
        assert state.minding is not None
        state.minding.history = History(told.store, lambda: state.runtime.config.experiments)
        await state.minding.history.look()
        async with httpx.AsyncClient(
            base_url=up.url, headers={"authorization": f"Bearer {KEY}"}
        ) as client:
            page = (await client.get("/admin/live")).text
    told.store.close()

    assert "larger-model" in page
    assert 'class="band c0"' in page
    assert "3 min ago" in page
    assert "header:x-session-id" in page
