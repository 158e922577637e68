"""No request is rejected while a backend could serve: wait for cooldowns, probe open circuits."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.gateway.routing.failures.fault_scenarios import Sees
from tests.gateway.routing.failures.fault_tasks import TASKS, client_sees
from tests.gateway.routing.failures.test_outages import leave_when
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Behaviour, Received, answers, provider

pytestmark = pytest.mark.anyio

TEXT = [name for name, task in TASKS.items() if task.surface == "openai"]


def chain(*urls: str, more: str = "") -> str:
    """A model with these backends in order: a, b, c; five attempts, as it is in a chain."""
    names = "abc"[: len(urls)]
    providers = "\n".join(
        f"  - {{name: {name}, adapter: openai, base_url: {url}, api_key: k}}"
        for name, url in zip(names, urls, strict=True)
    )
    backends = ", ".join(f"{{provider: {name}, model: m}}" for name in names)
    return f"""
providers:
{providers}
models:
  - name: chat
    policy: in_order
    retry: {{attempts: 5, backoff_s: 0.01, max_backoff_s: 1}}
    breaker: {{min_requests: 1, cooldown_s: 60}}
    backends: [{backends}]
{more}
"""


def patient(config: str) -> str:
    """Wait for longer cooldowns than this machine needs for any request."""
    return config.replace("max_backoff_s: 1", "max_backoff_s: 60")


async def ask(gateway: Serving, task: str = "chat") -> httpx.Response:
    return await TASKS[task].ask(gateway.url, "chat")


def fails(status: int, headers: Mapping[str, object] | None = None) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "no"}}, status, headers or {})

    return behave


def works_from(times: int, status: int, headers: Mapping[str, object] | None = None) -> Behaviour:
    """Fails as often, and works afterwards."""
    received = 0

    async def behave(request: Received, answer: Answer) -> None:
        nonlocal received
        received += 1
        await (fails(status, headers) if received <= times else answers)(request, answer)

    return behave


def timed(behaviour: Behaviour, times: list[float]) -> Behaviour:
    """Note when each request comes."""

    async def behave(request: Received, answer: Answer) -> None:
        times.append(time.monotonic())
        await behaviour(request, answer)

    return behave


def cooling(gateway: Serving) -> bool:
    """Whether the gateway has read that its first backend is busy."""
    at = asyncio.get_running_loop().time()
    return gateway.state.runtime.backends["chat: a/m"].breaker.cooling_down(at)


SOON = {"retry-after-ms": "300"}
LATER = {"retry-after-ms": "20000"}


@pytest.mark.parametrize("task", TEXT)
async def test_others_wait_for_the_end_of_a_short_cooldown(task: str, tmp_path: Path) -> None:
    times: list[float] = []
    async with (
        provider(timed(works_from(1, 429, SOON), times)) as a,
        serving(chain(a.base_url), tmp_path) as gateway,
    ):
        first = asyncio.create_task(ask(gateway, task))
        await a.until(lambda: cooling(gateway))
        later = await asyncio.gather(*(ask(gateway, task) for _ in range(5)))
        found = [await first, *later]

    for one in found:
        client_sees(TASKS[task], one, Sees(asked=(1, 0)))
    assert times[1] - times[0] >= 0.3
    assert {one.headers["x-gateway-attempts"] for one in later} == {"1"}


@pytest.mark.parametrize("task", TEXT)
async def test_a_backend_whose_circuit_is_open_is_tried_before_a_request_fails(
    task: str, tmp_path: Path
) -> None:
    """The second failed once, and is fine; then the first breaks."""
    async with (
        provider() as a,
        provider(works_from(1, 500)) as b,
        serving(chain(a.base_url, b.base_url), tmp_path) as gateway,
    ):
        a.behaviour = works_from(1, 500)
        one = await ask(gateway, task)  # a fails and opens, b fails and opens, then a again
        a.behaviour = fails(500)
        again = await ask(gateway, task)

    client_sees(TASKS[task], one, Sees(asked=(2, 1)))
    assert one.headers["x-gateway-attempts"] == "3"
    client_sees(TASKS[task], again, Sees(asked=(1, 1)))
    assert again.headers["x-gateway-backend"] == "b/m"


async def test_the_one_whose_cooldown_ends_first_is_waited_for_when_all_are_busy(
    tmp_path: Path,
) -> None:
    long = fails(429, {"retry-after": "60"})
    async with (
        provider(works_from(1, 429, SOON)) as a,
        provider(long) as b,
        provider(long) as c,
        serving(chain(a.base_url, b.base_url, c.base_url), tmp_path) as gateway,
    ):
        found = [await ask(gateway), await ask(gateway)]
        counts = [len(one.requests) for one in (a, b, c)]

    assert [one.status_code for one in found] == [200, 200]
    assert [one.headers["x-gateway-backend"] for one in found] == ["a/m", "a/m"]
    assert counts == [3, 1, 1]


async def test_a_busy_backend_is_waited_for_before_a_broken_one_takes_the_deadline(
    tmp_path: Path,
) -> None:
    async def silent(request: Received, answer: Answer) -> None:
        await answer.gone.wait()

    async with (
        provider() as a,
        provider(fails(500)) as b,
        serving(chain(a.base_url, b.base_url, more="    deadline_s: 5"), tmp_path) as gateway,
    ):
        a.behaviour = fails(500)
        await ask(gateway)
        a.behaviour = answers
        await ask(gateway)  # closes a; b stays open
        a.behaviour, b.behaviour = works_from(1, 429, SOON), silent
        found = await ask(gateway)

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "a/m")


async def test_a_cooldown_that_is_longer_than_the_deadline_is_not_waited_for(
    tmp_path: Path,
) -> None:
    config = patient(chain("{url}", more="    deadline_s: 15"))
    async with provider(fails(429, LATER)) as a:
        async with serving(config.replace("{url}", a.base_url), tmp_path) as gateway:
            found = [await ask(gateway), await ask(gateway)]
            lines = gateway.access_lines()

    assert [one.status_code for one in found] == [429, 429]
    assert 0 < int(found[1].headers["retry-after"]) <= 20
    assert "rate-limited" in found[1].text
    assert lines[1].ms < 15_000
    assert len(a.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_disconnects_during_the_wait_ends_it(
    stream: bool, tmp_path: Path
) -> None:
    async with (
        provider(works_from(1, 429, LATER)) as a,
        serving(patient(chain(a.base_url)), tmp_path) as gateway,
    ):
        first = asyncio.create_task(ask(gateway))
        await a.until(lambda: cooling(gateway))
        await leave_when(gateway, a, stream=stream)
        await a.until(lambda: bool(gateway.access_lines()))
        (line,) = gateway.access_lines()
        assert not first.done()
        first.cancel()
        sent = len(a.requests)

    assert (line.status, line.error, line.attempts) == (499, "client_closed_request", ())
    assert sent == 1


async def test_a_dead_backend_is_not_flooded_by_requests_without_another(tmp_path: Path) -> None:
    async with (
        provider(fails(500)) as a,
        serving(chain(a.base_url).replace("attempts: 5", "attempts: 1"), tmp_path) as gateway,
    ):
        await ask(gateway)
        begun = time.monotonic()
        found = await asyncio.gather(*(ask(gateway) for _ in range(40)))
        took = time.monotonic() - begun
        sent = len(a.requests) - 1

    assert {one.status_code for one in found} <= {502, 503}
    assert 1 <= sent <= took / 0.1 + 1


async def test_requests_are_served_as_soon_as_a_dead_backend_is_back(tmp_path: Path) -> None:
    """Though its circuit is open for a minute."""
    async with (
        provider(fails(500)) as a,
        serving(chain(a.base_url), tmp_path) as gateway,
    ):
        down = await ask(gateway)
        a.behaviour = answers
        found = await asyncio.gather(*(ask(gateway) for _ in range(10)))

    assert down.status_code == 502
    assert [one.status_code for one in found] == [200] * 10
