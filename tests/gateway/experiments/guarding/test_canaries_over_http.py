"""Canaries over HTTP: a variant that fails is paused while it is small, and control is spared."""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.experiments.harm_limits import HarmLimitMonitor
from tests.gateway.experiments.recorded_gateway import (
    ADMIN,
    BEARER,
    Recorded,
    ask,
    behave,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

LIMIT = "    harm_limits: [{metric: error, worse_by: 0.02}]"
DEAD = "new is down, backup is down"
OUTAGE = "new is down, old is down, backup is down"


class Audit:
    """An audit log that keeps its events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


async def send(up: Recorded, sessions: int, requests: int, text: str = DEAD) -> None:
    """Send that many requests of each session."""
    for _ in range(requests):
        for number in range(sessions):
            await ask(up.running, f"s{number}", text)


async def send_and_check(up: Recorded, sessions: int, requests: int, text: str = DEAD) -> None:
    """Send that many requests of each session; a check follows after each round."""
    for _ in range(requests):
        await send(up, sessions, 1, text)
        up.settle()
        await asyncio.sleep(0.3)


async def paused(up: Recorded) -> dict[str, Any]:
    """Return the report, once the experiment is paused or after several checks."""
    up.settle()
    found = await report(up)
    for _ in range(20):
        if found["paused"]:
            break
        await asyncio.sleep(0.1)
        found = await report(up)
    return found


async def treated(up: Recorded) -> str:
    """Return a session that is in the treatment."""
    for number in range(50):
        answer = await ask(up.running, f"t{number}")
        if answer.headers["x-gateway-variant"] == "treatment":
            return f"t{number}"
    raise AssertionError("no session is in the treatment")


async def test_20_users_are_enough_for_a_harm_limit_to_see_a_dead_variant(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=f"{LIMIT}\n    circuit: off", other=ADMIN)
        async with recorded(text, tmp_path) as up:
            await send(up, sessions=20, requests=12)
            found = await paused(up)

    assert found["paused"]
    assert found["reason"].startswith(
        "treatment is worse than control in error by more than 0.02 (by the assignment of 20 units"
    )
    assert (found["kind"], found["sentence"]) == ("harm_limit", f"{found['reason']}: paused")


async def test_one_active_key_is_enough_for_a_circuit_and_control_serves_it_then(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=LIMIT, other=ADMIN)
        async with recorded(text, tmp_path) as up:
            session = await treated(up)
            for _ in range(20):
                await ask(up.running, session, DEAD)
            found = await paused(up)
            after = await ask(up.running, session, DEAD)
            for _ in range(100):
                if "x-gateway-variant" not in after.headers:
                    break
                await asyncio.sleep(0.05)
                after = await ask(up.running, session, DEAD)

    assert found["reason"].startswith("circuit of treatment open: 20 of its last 2")
    assert found["kind"] == "harm_limit"
    assert after.status_code == 200


async def test_one_error_of_a_few_requests_pauses_nothing(tmp_path: Path) -> None:
    """One of three requests of the canary: a share of errors that proves nothing."""
    async with provider(behave) as remote:
        text = config(remote.base_url, more=LIMIT, other=ADMIN)
        async with recorded(text, tmp_path) as up:
            session = await treated(up)
            for said in (DEAD, "hi", "hi"):
                await ask(up.running, session, said)
            found = await paused(up)

    assert not found["paused"]


async def test_without_a_circuit_one_key_proves_nothing(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=f"{LIMIT}\n    circuit: off", other=ADMIN)
        async with recorded(text, tmp_path) as up:
            session = await treated(up)
            for _ in range(60):
                await ask(up.running, session, DEAD)
            found = await paused(up)

    assert not found["paused"]


async def test_a_circuit_needs_no_harm_limit_and_stays_closed_in_an_outage(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            await send(up, sessions=20, requests=4, text=OUTAGE)
            outage = await paused(up)
            await send_and_check(up, sessions=20, requests=6)
            found = await paused(up)

    assert not outage["paused"]
    assert found["reason"].startswith("circuit of treatment open:")


async def test_a_circuit_sees_a_variant_that_fails_after_a_long_time_of_health(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, other=ADMIN)
        async with recorded(text, tmp_path, check_interval_s=0.02) as up:
            for _ in range(10):
                await send(up, sessions=20, requests=2, text="hi")
                up.settle()
                await asyncio.sleep(0.05)
            await send_and_check(up, sessions=20, requests=4)
            found = await paused(up)

    assert found["paused"]


async def test_a_callers_own_faults_open_no_circuit(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            await send(up, sessions=20, requests=4, text="new is full, backup is full")
            found = await paused(up)

    assert not found["paused"]


async def test_a_circuit_has_the_size_and_the_share_that_are_configured(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        more = "    circuit: {requests: 200, share: 0.9}"
        async with recorded(config(remote.base_url, more=more, other=ADMIN), tmp_path) as up:
            await send(up, sessions=20, requests=8)
            found = await paused(up)

    assert not found["paused"]


async def test_after_a_resume_a_circuit_counts_from_zero(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            await send_and_check(up, sessions=20, requests=4)
            before = await paused(up)
            async with httpx.AsyncClient(timeout=60) as client:
                url = f"{up.running.url}/admin/experiments/trial/resume"
                await client.post(url, headers=BEARER)
            await send(up, sessions=20, requests=4, text="hi")
            healthy = await paused(up)

    assert before["paused"]
    assert not healthy["paused"]


async def test_a_circuit_and_looks_count_from_zero_also_if_no_process_saw_the_pause(
    tmp_path: Path,
) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=LIMIT, other=ADMIN)
        async with recorded(text, tmp_path, check_interval_s=600) as up:
            monitor = HarmLimitMonitor(up.store, every_s=0)
            experiments = up.running.state.runtime.config.experiments
            await send(up, sessions=20, requests=4)
            up.settle()
            found = [monitor.check(experiments)]
            up.store.resume("trial")
            while len(up.store.epochs("trial")) < 3:  # noqa: ASYNC110  a thread polls
                await asyncio.sleep(0.01)
            await send(up, sessions=20, requests=2, text="hi")
            up.settle()
            found.append(monitor.check(experiments))

    assert found == [("trial",), ()]


async def test_an_excluded_unit_opens_no_circuit(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        more = "    circuit: {requests: 40}"
        async with recorded(config(remote.base_url, more=more, other=ADMIN), tmp_path) as up:
            session = await treated(up)
            await send(up, sessions=10, requests=1, text="hi")
            for _ in range(25):
                await ask(up.running, session, DEAD)
            up.settle()
            async with httpx.AsyncClient(timeout=60) as client:
                url = f"{up.running.url}/admin/experiments/trial"
                await client.post(f"{url}/exclude", headers=BEARER, json={"user": session})
                for _ in range(50):
                    await ask(up.running, session, DEAD)
                excluded = await paused(up)
                await client.post(f"{url}/include", headers=BEARER, json={"user": session})
                for _ in range(4):
                    await send(up, sessions=10, requests=1, text="hi")
                    for _ in range(20):
                        await ask(up.running, session, DEAD)
                    up.settle()
                    await asyncio.sleep(0.3)
            included = await paused(up)

    assert not excluded["paused"], excluded["reason"]
    assert included["reason"].startswith("circuit of treatment open: 40 of its last 5")


async def test_a_look_is_spent_once_by_all_gateways_on_a_store(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=f"{LIMIT}\n    circuit: off")
        async with recorded(text, tmp_path, check_interval_s=60.0) as up:
            await send(up, sessions=20, requests=12)
            up.settle()
            (experiment,) = up.running.state.runtime.config.experiments
            first, second = (
                HarmLimitMonitor(up.store, clock=partial(float, at))
                for at in (time.time(), time.time() + 100)
            )
            found = [first.check([experiment])]
            up.store.resume("trial")
            found.append(second.check([experiment]))

    assert found == [("trial",), ()]


async def test_a_pause_by_a_circuit_is_audited_as_one_by_a_harm_limit(tmp_path: Path) -> None:
    audit = Audit()
    async with provider(behave) as remote:
        text = config(remote.base_url)
        async with recorded(text, tmp_path, check_interval_s=60.0) as up:
            monitor = HarmLimitMonitor(up.store, every_s=0, audit=audit)
            for _ in range(4):
                await send(up, sessions=20, requests=1)
                up.settle()
                monitor.check(up.running.state.runtime.config.experiments)

    (event,) = audit.events
    assert (event.actor_kind, event.action, event.target) == (
        "harm_limit",
        "experiment.pause",
        "trial",
    )
    assert "circuit of treatment open" in event.reason
    assert monitor.pauses == {"trial": 1}
