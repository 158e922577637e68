"""Contracts of metrics: valid feedback, and its effect on verdicts and harm limits."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.experiments.recorded_gateway import (
    ADMIN,
    Recorded,
    ask,
    behave,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONTRACTS = f"""
{ADMIN}
metrics:
  - {{name: thumbs_up, type: boolean}}
  - {{name: stars, type: number, range: [1, 5]}}
  - {{name: edits, type: number, range: [0, 1000], cap: 50, higher_is: worse}}
  - {{name: resolved, type: boolean, level: unit}}
"""


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Recorded, None]:
    async with provider(behave) as remote:
        text = config(remote.base_url, other=CONTRACTS)
        async with recorded(text, tmp_path_factory.mktemp("store")) as up:
            yield up


async def answered(up: Recorded, session: str) -> tuple[str, str]:
    """The request's id and its variant."""
    answer = await ask(up.running, session)
    assert answer.status_code == 200
    return answer.headers["x-gateway-request-id"], answer.headers["x-gateway-variant"]


async def vote(up: Recorded, request_id: str, metric: str, value: object) -> httpx.Response:
    body = {"request_id": request_id, "metric": metric, "value": value}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{up.running.url}/v1/feedback", json=body)


def of(found: dict[str, Any], metric: str) -> dict[str, Any]:
    (one,) = [one for one in found["metrics"] if one["name"] == metric]
    return one


REFUSED = [
    ("thumbs_up", 1, "1 is a number, but metric 'thumbs_up' takes true or false"),
    ("thumbs_up", 0.5, "0.5 is a number, but metric 'thumbs_up' takes true or false"),
    ("stars", True, "true is a boolean, but metric 'stars' takes a number from 1 to 5"),
    ("stars", 5.5, "5.5 is out of range, metric 'stars' takes a number from 1 to 5"),
    ("stars", -1e12, "-1e+12 is out of range, metric 'stars' takes a number from 1 to 5"),
    ("edits", 1001, "1001 is out of range, metric 'edits' takes a number from 0 to 1000"),
]


@pytest.mark.parametrize(("metric", "value", "told"), REFUSED)
async def test_a_value_outside_of_its_contract_is_refused_by_field_value_and_contract(
    gateway: Recorded, metric: str, value: object, told: str
) -> None:
    request_id, _ = await answered(gateway, "s")
    gateway.settle()
    before = gateway.store.metrics("trial")

    answer = await vote(gateway, request_id, metric, value)
    gateway.settle()

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "value"
    assert answer.json()["error"]["message"] == f"value: {told}"
    assert gateway.store.metrics("trial") == before


async def test_a_value_above_the_cap_counts_as_the_cap_and_the_report_says_so(
    gateway: Recorded,
) -> None:
    _, variant = await answered(gateway, "patient")
    for value in (7, 700.0):
        request_id, _ = await answered(gateway, "patient")
        assert (await vote(gateway, request_id, "edits", value)).status_code == 202
    gateway.settle()

    found = of(await report(gateway), "edits")

    (row,) = [one for one in found["variants"] if one["variant"] == variant]
    assert row["mean"] == (7 + 50) / 2
    assert (found["capped"], found["better"]) == (1, "lower")
    assert found["contract"] == {
        "name": "edits",
        "type": "number",
        "range": [0.0, 1000.0],
        "higher_is": "worse",
        "cap": 50.0,
        "level": "request",
    }


async def test_a_metric_of_units_counts_each_once_with_its_mean(gateway: Recorded) -> None:
    means: dict[str, list[float]] = {"control": [], "treatment": []}
    variant = ""
    for number in range(8):
        votes = [turn < number % 3 for turn in range(1 + number % 4)]
        for value in votes:
            request_id, variant = await answered(gateway, f"unit-{number}")
            await vote(gateway, request_id, "resolved", value)
        means[variant].append(sum(votes) / len(votes))
    gateway.settle()

    found = of(await report(gateway), "resolved")

    for row in found["variants"]:
        own = means[row["variant"]]
        assert row["units"] == len(own)
        assert row["mean"] == pytest.approx(sum(own) / len(own))


async def test_no_single_vote_undoes_an_experiment_that_has_no_contract(tmp_path: Path) -> None:
    request_id = ""
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            for number in range(80):
                request_id, _ = await answered(up, f"s{number}")
                assert (await vote(up, request_id, "thumbs_up", number % 3 == 0)).is_success
            up.settle()
            before = await report(up)
            refused = [await vote(up, request_id, "thumbs_up", value) for value in (1000, 1e12, -1)]
            between = await vote(up, request_id, "thumbs_up", 0.25)
            elsewhere = await vote(up, request_id, "words", 1000)
            after = await report(up)

    assert of(before, "thumbs_up")["variants"][1]["low"] is not None
    assert [answer.status_code for answer in refused] == [400, 400, 400]
    assert refused[0].json()["error"]["message"] == (
        "value: 1000 is out of range, metric 'thumbs_up' takes true, false or a number from 0 to "
        "1, because it decides an experiment and has no contract; the operator can add one under "
        "`metrics` in the configuration"
    )
    assert (between.status_code, elsewhere.status_code) == (200, 200)
    assert after == before


WORSE = f"""
{ADMIN}
metrics: [{{name: complaint, type: boolean, higher_is: worse}}]
"""


async def test_where_higher_is_worse_a_harm_limit_stops_what_is_higher(tmp_path: Path) -> None:
    harm_limit = "    harm_limits: [{metric: complaint, worse_by: 0.05}]\n    planned: 200"
    async with provider(behave) as remote:
        text = config(remote.base_url, more=harm_limit, other=WORSE)
        async with recorded(text, tmp_path) as up:
            for number in range(120):
                request_id, variant = await answered(up, f"s{number}")
                await vote(up, request_id, "complaint", variant == "treatment")
            up.settle()
            for _ in range(300):  # until a monitor has looked, however busy the machine is
                answer = await ask(up.running, "s1")
                if "x-gateway-variant" not in answer.headers:
                    break
                await asyncio.sleep(0.1)
            found = await report(up)

    assert found["paused"] is True
    assert found["reason"] == "treatment is worse than control in complaint by more than 0.05"
