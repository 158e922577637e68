"""Long outages: when to try again, a primary that flaps, a client that disconnects."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.routing.resilience.circuit_breaker import JITTER
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio


def pair(first: str, second: str = "", more: str = "") -> str:
    """One model with a backend, or two in order."""
    backends = "{provider: a, model: m}" + (", {provider: b, model: m}" if second else "")
    other = f"- {{name: b, adapter: openai, base_url: {second}, api_key: k}}" if second else ""
    return f"""
providers:
  - {{name: a, adapter: openai, base_url: {first}, api_key: k}}
  {other}
models:
  - name: chat
    policy: in_order
    retry: {{backoff_s: 0.01, max_backoff_s: 2}}
    backends: [{backends}]
{more}
"""


async def ask(gateway: Serving, *, stream: bool = False) -> httpx.Response:
    messages = [{"role": "user", "content": "hi"}]
    body = {"model": "chat", "stream": stream, "messages": messages}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post("/v1/chat/completions", json=body, timeout=60)


def at_first(
    refuse: Callable[[Answer], Awaitable[None]], times: list[float]
) -> Callable[[Received, Answer], Awaitable[None]]:
    """Refuses the first request and notes when each one came."""

    async def behave(request: Received, answer: Answer) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            await refuse(answer)
        else:
            await answers(request, answer)

    return behave


def in_a_second() -> dict[str, object]:
    at = time.time()
    return {"date": formatdate(at, usegmt=True), "retry-after": formatdate(at + 1, usegmt=True)}


FORMS: dict[str, tuple[Callable[[], dict[str, object]], float]] = {
    "seconds": (lambda: {"retry-after": "1"}, 1.0),
    "date": (in_a_second, 1.0),
    "milliseconds": (lambda: {"retry-after-ms": "150"}, 0.15),
}


async def test_retry_after_is_a_lower_bound_in_all_of_its_forms(tmp_path: Path) -> None:
    async def gap(form: str, stream: bool, status: int) -> float:
        headers, times = FORMS[form][0], list[float]()

        async def busy(answer: Answer) -> None:
            await answer.json({"error": {"message": "later"}}, status, headers())

        run = tmp_path / f"{form}-{stream}-{status}"
        run.mkdir()
        async with (
            provider(at_first(busy, times)) as a,
            serving(pair(a.base_url), run) as gateway,
        ):
            answer = await ask(gateway, stream=stream)
        assert (answer.status_code, answer.headers["x-gateway-attempts"]) == (200, "2")
        return times[1] - times[0]

    kinds = [
        (form, stream, code) for form in FORMS for stream in (False, True) for code in (429, 503)
    ]

    gaps = await asyncio.gather(*(gap(*kind) for kind in kinds))

    for (form, _, _), seconds in zip(kinds, gaps, strict=True):
        assert seconds >= FORMS[form][1]


async def test_googles_retry_info_is_a_lower_bound_too(tmp_path: Path) -> None:
    times: list[float] = []

    async def behave(request: Received, answer: Answer) -> None:
        times.append(time.monotonic())
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        details = [{"@type": kind, "retryDelay": "0.2s"}]
        error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "no", "details": details}
        await answer.json({"error": error}, 429)

    async with provider(behave) as a:
        config = pair(a.origin).replace("adapter: openai", "adapter: gemini")
        async with serving(config, tmp_path) as gateway:
            answer = await ask(gateway)

    assert answer.status_code == 429
    assert len(times) == 3
    assert min(times[1] - times[0], times[2] - times[1]) >= 0.2


async def test_a_cooldown_that_is_too_long_to_wait_for_is_reported_to_the_client(
    tmp_path: Path,
) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "later"}}, 429, {"retry-after": "3600"})

    async with provider(busy) as a, serving(pair(a.base_url), tmp_path) as gateway:
        answer = await ask(gateway)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3600")
    assert len(a.requests) == 1


FLAPPING = "    breaker: {min_requests: 2, cooldown_s: 0.25, max_cooldown_s: 0.5}"


SHORTEST_S = 0.25 * (1 - JITTER)
"""Between two probes of a primary that is down. On a quick machine, a test is over before."""


def available(gateway: Serving) -> bool:
    at = asyncio.get_running_loop().time()
    return gateway.state.runtime.backends["chat: a/m"].breaker.is_available(at)


class Flapping:
    """A primary that is down until a test brings it up."""

    def __init__(self) -> None:
        self.down = True

    async def __call__(self, request: Received, answer: Answer) -> None:
        if self.down:
            await answer.json({"error": {"message": "down"}}, 503)
        else:
            await answers(request, answer)


async def test_a_primary_that_flaps_is_left_probed_once_and_taken_back(tmp_path: Path) -> None:
    """S15 of failoverbench, thirty times as fast."""
    primary = Flapping()
    async with (
        provider(primary) as a,
        provider() as b,
        serving(pair(a.base_url, b.base_url, FLAPPING), tmp_path) as gateway,
    ):
        outage = [await ask(gateway) for _ in range(2)]
        begun = time.monotonic()
        outage += [await ask(gateway, stream=bool(one % 2)) for one in range(6)]
        asked, most = len(a.requests), 2 + int((time.monotonic() - begun) / SHORTEST_S)
        await a.until(lambda: available(gateway))
        begun = time.monotonic()
        probed = await asyncio.gather(*(ask(gateway) for _ in range(5)))
        probes = len(a.requests) - asked
        most_probes = 1 + int((time.monotonic() - begun) / SHORTEST_S)
        primary.down = False
        await a.until(lambda: available(gateway))
        after = [await ask(gateway) for _ in range(3)]

    assert [one.status_code for one in (*outage, *probed, *after)] == [200] * 16
    assert 2 <= asked <= most
    assert 1 <= probes <= most_probes
    assert [one.headers["x-gateway-backend"] for one in after] == ["a/m"] * 3


@pytest.mark.nightly
async def test_a_primary_that_was_down_for_a_minute_is_back_within_seconds(tmp_path: Path) -> None:
    """S15 of failoverbench at its own times, with our defaults: 20 requests, one every 4 s."""
    primary, outage_s, every_s = Flapping(), 60.0, 4.0
    config = "\n".join(line for line in pair("{a}", "{b}").splitlines() if "retry:" not in line)
    async with provider(primary) as a, provider() as b:
        text = config.replace("{a}", a.base_url).replace("{b}", b.base_url)
        async with serving(text, tmp_path) as gateway:
            begun, found = time.monotonic(), list[httpx.Response]()
            for place in range(20):
                await asyncio.sleep(begun + place * every_s - time.monotonic())
                primary.down = time.monotonic() - begun < outage_s
                found.append(await ask(gateway, stream=bool(place % 2)))

    served = [one.headers["x-gateway-backend"] for one in found]
    assert {one.status_code for one in found} == {200}
    assert served[:15] == ["b/m"] * 15
    assert "a/m" in served[15:19]


async def test_a_probe_that_shows_content_admits_others_immediately(tmp_path: Path) -> None:
    """A long answer is as good a sign of life at its beginning as at its end."""
    primary = Flapping()

    async def behave(request: Received, answer: Answer) -> None:
        if not primary.down and request.json.get("stream"):
            await answer.begin_stream()
            await answer.text("hel")
            await answer.gone.wait()
        await primary(request, answer)

    async with (
        provider(behave) as a,
        serving(pair(a.base_url, "", FLAPPING), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        outage = await ask(gateway)
        primary.down = False
        await a.until(lambda: available(gateway))
        body = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        async with client.stream("POST", "/v1/chat/completions", json=body) as probe:
            await anext(probe.aiter_bytes())
            beside = await ask(gateway)

    assert (outage.status_code, probe.status_code, beside.status_code) == (503, 200, 200)


async def test_a_breaker_that_opens_during_the_backoff_makes_retries_queue(
    tmp_path: Path,
) -> None:
    """It is their only chance, and the gateway sends one every tenth of a second."""
    primary, times = Flapping(), list[float]()

    async def behave(request: Received, answer: Answer) -> None:
        times.append(time.monotonic())
        await primary(request, answer)

    config = pair("{url}", "", FLAPPING).replace("backoff_s: 0.01", "backoff_s: 0.1")
    async with provider(behave) as a:
        async with serving(config.replace("{url}", a.base_url), tmp_path) as gateway:
            found = await asyncio.gather(*(ask(gateway) for _ in range(4)))

    assert all(one.status_code == 503 for one in found)
    assert len(a.requests) <= 4 + 10  # second tries at one provider have a budget
    assert times[-1] - times[4] >= 0.05 * (len(times) - 5), "half, because arrivals are uneven"


async def leave_when(gateway: Serving, remote: Provider, *, stream: bool) -> None:
    """Send a request, and hang up once upstream has got it."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    messages = [{"role": "user", "content": "hi"}]
    body = json.dumps({"model": "chat", "stream": stream, "messages": messages}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await remote.until(lambda: len(remote.requests) == 1)
    await asyncio.sleep(0.05)
    writer.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_disconnects_during_the_backoff_ends_the_attempts(
    stream: bool, tmp_path: Path
) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "later"}}, 503, {"retry-after-ms": "20000"})

    async with (
        provider(busy) as a,
        serving(
            pair(a.base_url).replace("max_backoff_s: 2", "max_backoff_s: 60"), tmp_path
        ) as gateway,
    ):
        await leave_when(gateway, a, stream=stream)
        await a.until(lambda: bool(gateway.access_lines()))
        (line,) = gateway.access_lines()

        assert (line.status, line.error) == (499, "client_closed_request")
        assert gateway.state.admission.in_flight == 0
        assert len(a.requests) == 1
