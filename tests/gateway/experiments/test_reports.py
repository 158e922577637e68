"""Reports of requests and votes on the wire, with numbers that can be counted by hand."""

import asyncio
import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import cast

import httpx
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.experiments.harm_limits import HarmLimitMonitor
from strowger_gateway.gateway.statistics.effects import Look, effect
from strowger_gateway.gateway.statistics.outcomes import UnitRow, summarised
from tests.gateway.experiments.recorded_gateway import (
    Recorded,
    ask,
    behave,
    config,
    recorded,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

ADMIN = "auth: {admin_key: key-of-the-operator}"
BEARER = {"authorization": "Bearer key-of-the-operator"}
SESSIONS = 80
Json = dict[str, object]


async def vote(up: Recorded, request_id: str, value: bool) -> int:
    body = {"request_id": request_id, "metric": "thumbs_up", "value": value}
    async with httpx.AsyncClient(timeout=60) as client:
        return (await client.post(f"{up.running.url}/v1/feedback", json=body)).status_code


async def admin(up: Recorded, method: str, path: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.request(
            method, f"{up.running.url}/admin/experiments{path}", headers=BEARER
        )


async def crowd(up: Recorded) -> list[tuple[str, str, str, bool]]:
    """Every third session asks twice, every tenth finds its backend down. By request: session,
    variant, backend, and whether it was liked, as the treatment is more often than not."""
    found: list[tuple[str, str, str, bool]] = []
    for number in range(SESSIONS):
        for turn in range(1 + (number % 3 == 0)):
            down = "old is down, new is down" if number % 10 == 0 else "hi"
            answer = await ask(up.running, f"s{number}", down)
            assert answer.status_code == 200
            variant = answer.headers["x-gateway-variant"]
            liked = (number + turn) % (3 if variant == "treatment" else 2) != 0
            request_id = answer.headers["x-gateway-request-id"]
            assert await vote(up, request_id, liked) == 202
            found.append((f"s{number}", variant, answer.headers["x-gateway-backend"], liked))
    return found


def of(report: Json, metric: str, variant: str) -> Json:
    metrics = cast("list[Json]", report["metrics"])
    (found,) = [one for one in metrics if one["name"] == metric]
    (row,) = [one for one in cast("list[Json]", found["variants"]) if one["variant"] == variant]
    return row


async def test_a_report_says_what_can_be_counted_by_hand(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            sent = await crowd(up)
            await ask(up.running)
            up.settle()
            report = cast(Json, (await admin(up, "GET", "/trial")).json())

    units: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for session, variant, _, liked in sent:
        units[session, variant].append(liked)
    rows = [
        UnitRow(unit=unit, epoch=1, variant=variant, count=len(votes), total=sum(votes))
        for (unit, variant), votes in units.items()
    ]
    moments = summarised(rows)
    means = {cell.variant: cell.mean for cell in moments.cells}
    expected = effect(
        moments,
        control="control",
        treatment="treatment",
        look=Look(),
        bounds=(0.0, 1.0),
    )
    for arm in cast("list[Json]", report["arms"]):
        of_arm = [one for one in sent if one[1] == arm["name"]]
        measured = of(report, "thumbs_up", str(arm["name"]))
        assert arm["requests"] == len(of_arm) == measured["observations"]
        assert arm["units"] == len({session for session, _, _, _ in of_arm}) == measured["units"]
        assert arm["fallbacks"] == sum(backend == "a/backup" for _, _, backend, _ in of_arm) > 0
        assert measured["mean"] == pytest.approx(means[str(arm["name"])])
        assert of(report, "error", str(arm["name"]))["mean"] == 0
        assert of(report, "output_tokens", str(arm["name"]))["mean"] == pytest.approx(3)
    shown = of(report, "thumbs_up", "treatment")
    assert [shown[key] for key in ("difference", "low", "high", "p")] == pytest.approx(
        [expected.difference, expected.low, expected.high, expected.p]
    )
    assert report["excluded"] == 1
    assert (report["epoch"], report["paused"], report["mismatch"]) == (1, False, False)
    assert report["kind"] == "undecided"


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("strowger.db*"))


async def test_names_of_users_are_not_in_the_store(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url), tmp_path) as up:
            await ask(up.running, "someone@example.com")
            up.settle()

    kept = stored(tmp_path)
    assert b"treatment" in kept or b"control" in kept
    assert b"someone" not in kept


async def test_a_pause_reaches_requests_survives_a_restart_and_ends_with_an_epoch(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, other=ADMIN)
        async with recorded(text, tmp_path) as up:
            before = await ask(up.running, "s1")
            paused = cast(Json, (await admin(up, "POST", "/trial/pause")).json())
            during = await ask(up.running, "s1")
            metrics = (await up.running.state.processes.metrics_text())[0].decode()
        async with recorded(text, tmp_path) as up:
            restarted = await ask(up.running, "s1")
            listed = cast("dict[str, list[Json]]", (await admin(up, "GET", "")).json())
            resumed = cast(Json, (await admin(up, "POST", "/trial/resume")).json())
            after = await ask(up.running, "s1")

    assert (paused["paused"], paused["reason"], paused["epoch"]) == (True, "by the operator", 2)
    assert 'strowger_experiment_paused{experiment="trial"} 1.0' in metrics
    for answer in (during, restarted):
        assert answer.headers["x-gateway-backend"] == "a/old"
        assert "x-gateway-variant" not in answer.headers
    assert listed["experiments"][0]["paused"] is True
    assert (resumed["paused"], resumed["epoch"]) == (False, 3)
    assert after.headers["x-gateway-variant"] == before.headers["x-gateway-variant"]


async def test_of_the_gateways_on_a_store_one_checks_the_harm_limits(tmp_path: Path) -> None:
    harm_limit = "    harm_limits: [{metric: error, worse_by: 0.02}]\n    planned: 200"
    async with provider(behave) as remote:
        text = config(remote.base_url, more=harm_limit)
        async with recorded(text, tmp_path, check_interval_s=60.0) as up:
            for number in range(120):
                await ask(up.running, f"s{number}", "new is down, backup is down")
            up.settle()
            experiments = up.running.state.runtime.config.experiments
            looked: list[bool] = []
            found: list[tuple[str, ...]] = []
            for at in (100.0, 100.0, 103.0, 105.0):
                monitor = HarmLimitMonitor(up.store, clock=partial(float, at))
                found.append(monitor.check(experiments))
                looked.append("trial" in monitor.mismatched)
                up.store.resume("trial")
            neighbour = HarmLimitMonitor(up.store, clock=partial(float, 105.0))
            neighbour.check([replace(experiments[0], name="of another gateway")])

    assert looked == [True, False, False, True]
    assert found == [("trial",), (), (), ()]  # the last one sees no request since the resume
    assert neighbour.mismatched == {"of another gateway": False}


HARM_LIMIT = "    harm_limits: [{metric: error, worse_by: 0.02}]\n    planned: 200"


async def harm(up: Recorded) -> bool:
    """Return whether a harm limit pauses it if the treatment fails every request."""
    for number in range(120):
        await ask(up.running, f"s{number}", "new is down, backup is down")
    up.settle()
    for _ in range(100):
        answer = await ask(up.running, "s1", "hi")
        if "x-gateway-variant" not in answer.headers:
            return True
        await asyncio.sleep(0.05)
    return False


async def test_a_harm_limit_pauses_what_does_harm_and_says_why(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=HARM_LIMIT, other=ADMIN)
        async with recorded(text, tmp_path) as up:
            await harm(up)
            report = cast(Json, (await admin(up, "GET", "/trial")).json())

    assert report["kind"] == "harm_limit"
    assert report["paused"] is True
    assert "treatment is worse than control in error by more than 0.02" in str(report["reason"])


async def test_after_a_resume_a_harm_limit_uses_only_newer_data(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=HARM_LIMIT, other=ADMIN)
        async with recorded(text, tmp_path) as up:
            await harm(up)
            await admin(up, "POST", "/trial/resume")
            for number in range(40):
                await ask(up.running, f"s{number}", "hi")
            up.settle()
            await asyncio.sleep(0.3)
            resumed = cast(Json, (await admin(up, "GET", "/trial")).json())
            again = await harm(up)

    assert resumed["paused"] is False
    assert resumed["harm_limits"] == [
        "treatment is not shown to be worse than control in error by more than 0.02"
    ]
    assert again


async def test_an_unknown_experiment_is_reported_with_the_nearest_name(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            answers = [
                await admin(up, "GET", "/trail"),
                await admin(up, "POST", "/trail/pause"),
                await admin(up, "POST", "/trail/resume"),
            ]

    for answer in answers:
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "experiment_not_found"
        assert 'did you mean "trial"?' in answer.json()["error"]["message"]
    assert json.loads(answers[1].text) == answers[2].json()
