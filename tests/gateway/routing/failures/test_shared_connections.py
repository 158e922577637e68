"""A key that fills a provider's connections delays itself: others have their turn, and no backend
is blamed for a queue of the gateway's own."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.routing.planning.route import Backend
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth:
  mode: keys
  keys:
    - {{name: greedy, key: key-of-greedy}}
    - {{name: second, key: key-of-second}}
    - {{name: other, key: key-of-other}}
    - {{name: t1, key: key-of-t1, team: many}}
    - {{name: t2, key: key-of-t2, team: many}}
    - {{name: t3, key: key-of-t3, team: many}}
teams: [{{name: many}}]
providers:
  - {{name: a, adapter: openai, base_url: {a}, api_key: k, max_connections: 8,
     timeouts: {{connect_s: {connect_s}}}}}
  - {{name: b, adapter: openai, base_url: {b}, api_key: k}}
models:
  - name: chat
    policy: {policy}
    retry: {{backoff_s: 0}}
    breaker: {{min_requests: 1{breaker}}}
    backends: [{{provider: a, model: m{first}}}, {{provider: b, model: m{last}}}]
    {more}
"""


class Scene(Struct, frozen=True, eq=False):
    """A gateway with two backends. let_go: ends the slow answers."""

    gateway: Serving
    client: httpx.AsyncClient
    let_go: asyncio.Event
    a: Provider
    b: Provider
    slow: asyncio.Semaphore
    begun: list["asyncio.Task[httpx.Response]"]

    async def ask(self, key: str, text: str = "hello", **more: object) -> httpx.Response:
        body = {"model": "chat", "messages": [{"role": "user", "content": text}], **more}
        headers = {"authorization": f"Bearer key-of-{key}"}
        return await self.client.post("/v1/chat/completions", json=body, headers=headers)

    def begin(
        self, key: str, number: int, text: str = "slow", **more: object
    ) -> list["asyncio.Task[httpx.Response]"]:
        begun = [asyncio.create_task(self.ask(key, text, **more)) for _ in range(number)]
        self.begun.extend(begun)
        return begun

    async def until_slow(self, number: int) -> None:
        """Wait until that many more slow requests have reached a backend."""
        async with asyncio.timeout(20):
            for _ in range(number):
                await self.slow.acquire()

    @property
    def backends(self) -> Sequence[Backend]:
        return tuple(self.gateway.state.runtime.backends.values())

    def check_blameless(self) -> None:
        for backend in self.backends:
            assert backend.breaker.failed == 0
            assert backend.breaker.open_until is None
            assert backend.breaker.cooldown_left(0.0) == 0


async def _rate_limited(answer: Answer) -> None:
    await answer.json({"error": {"message": "no"}}, 429)


async def _broken(answer: Answer) -> None:
    await answer.begin_stream()
    await answer.text("hel")
    answer.reset()


async def _lost(answer: Answer) -> None:
    answer.reset()


async def _stalled(answer: Answer) -> None:
    await answer.begin_stream()
    await answer.gone.wait()


FAULTS = {"limited": _rate_limited, "broken": _broken, "lost": _lost, "stalled": _stalled}
"""Ends of an exchange that do not leave a connection for the next one, by the prompt."""


@asynccontextmanager
async def scene(
    folder: Path,
    *,
    policy: str = "in_order",
    connect_s: float = 0.3,
    more: str = "",
    breaker: str = "",
) -> AsyncGenerator[Scene]:
    let_go, slow = asyncio.Event(), asyncio.Semaphore(0)

    async def vendor(request: Received, answer: Answer) -> None:
        how = next((one for one in FAULTS if b'"%b"' % one.encode() in request.body), None)
        if how is not None:
            await FAULTS[how](answer)
            return
        if b'"slow"' not in request.body:
            await answers(request, answer)
            return
        slow.release()
        ends = [asyncio.ensure_future(one.wait()) for one in (let_go, answer.gone)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not answer.gone.is_set():
            await answers(request, answer)

    async with provider(vendor) as a, provider(vendor) as b:
        config = CONFIG.format(
            a=a.base_url, b=b.base_url, policy=policy, connect_s=connect_s, more=more,
            breaker=f", {breaker}" if breaker else "",
            first=", weight: 1" if policy == "weighted" else "",
            last=", weight: 0" if policy == "weighted" else "",
        )  # fmt: skip
        async with (
            serving(config, folder) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            at = Scene(gateway, client, let_go, a, b, slow, [])
            try:
                yield at
            finally:
                let_go.set()
                for task in at.begun:
                    task.cancel()
                await asyncio.gather(*at.begun, return_exceptions=True)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("policy", ["in_order", "weighted"])
async def test_another_key_is_answered_by_its_first_backend_while_one_key_fills_the_pool(
    policy: str, stream: bool, tmp_path: Path
) -> None:
    async with scene(tmp_path, policy=policy) as at:
        greedy = at.begin("greedy", 20, stream=stream)
        await at.until_slow(7)
        others = [await at.ask("other", stream=stream) for _ in range(10)]
        refused = await asyncio.gather(*greedy[7:])
        at.check_blameless()
        at.let_go.set()
        served = await asyncio.gather(*greedy[:7])
        afterwards = await at.ask("other", stream=stream)

    assert {one.headers["x-gateway-backend"] for one in [*others, afterwards]} == {"a/m"}
    assert {one.status_code for one in others} == {200}
    assert [one.status_code for one in served] == [200] * 7
    assert {one.status_code for one in refused} == {429}
    assert {one.json()["error"]["code"] for one in refused} == {"connections_in_use"}
    assert {one.headers["retry-after"] for one in refused} == {"1"}
    assert "one key may use" in refused[0].json()["error"]["message"]
    assert at.b.requests == []


async def test_a_pool_filled_by_two_keys_serves_a_third_with_the_next_connection(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, connect_s=20) as at:
        tasks = at.begin("greedy", 20)
        await at.until_slow(7)
        tasks += at.begin("second", 20)
        await at.until_slow(1)
        other = asyncio.create_task(at.ask("other"))
        await asyncio.sleep(0.05)
        waited = not other.done()

        tasks[0].cancel()
        answer = await other

        at.check_blameless()
        for task in tasks:
            task.cancel()

    assert waited
    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == "a/m"


async def test_a_team_of_many_keys_has_the_turns_of_one(tmp_path: Path) -> None:
    async with scene(tmp_path, connect_s=20) as at:
        tasks = [task for key in ("t1", "t2", "t3") for task in at.begin(key, 6)]
        await at.until_slow(8)
        other = asyncio.create_task(at.ask("other"))
        await asyncio.sleep(0.05)

        next(task for task in tasks if not task.done()).cancel()
        async with asyncio.timeout(10):
            answer = await other
        for task in tasks:
            task.cancel()

    assert answer.status_code == 200


async def test_a_full_pool_says_so_to_a_key_below_its_share(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.begin("greedy", 7)
        await at.until_slow(7)
        at.begin("second", 1)
        await at.until_slow(1)
        answer = await at.ask("other")
        at.check_blameless()
        lines = at.gateway.access_lines()

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "connections_in_use"
    assert "a: all connections to this provider are in use" in answer.json()["error"]["message"]
    (attempt,) = next(line for line in lines if line.key == "other").attempts
    assert attempt.outcome == "connections_in_use"
    assert attempt.waited_s > 0
    assert at.b.requests == []


async def test_the_operator_may_send_what_does_not_fit_elsewhere(tmp_path: Path) -> None:
    more = "fallback_by_error: [{codes: [connections_in_use], models: [spare]}]"
    spare = "  - {name: spare, backends: [{provider: b, model: spare}]}"
    async with scene(tmp_path, more=f"{more}\n{spare}") as at:
        at.begin("greedy", 7)
        await at.until_slow(7)
        answer = await at.ask("greedy")
        at.check_blameless()

    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == "b/spare"


async def test_a_deadline_that_passes_in_the_queue_blames_no_backend(tmp_path: Path) -> None:
    async with scene(tmp_path, connect_s=20) as at:
        at.begin("greedy", 7)
        await at.until_slow(7)
        answer = await at.ask("greedy", timeout=0.1)
        at.check_blameless()

    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "deadline_exceeded"
    assert "waited for a connection" in answer.json()["error"]["message"]
    assert at.b.requests == []


async def test_a_client_that_leaves_the_queue_blames_no_backend(tmp_path: Path) -> None:
    async with scene(tmp_path, connect_s=20) as at:
        tasks = at.begin("greedy", 30)
        await at.until_slow(7)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        answer = await at.ask("greedy")
        at.check_blameless()

    assert answer.status_code == 200
    assert at.b.requests == []


async def test_the_time_in_the_queue_is_no_latency_of_the_backend(tmp_path: Path) -> None:
    async with scene(tmp_path, connect_s=20) as at:
        at.begin("greedy", 7, stream=True)
        await at.until_slow(7)
        queued = asyncio.create_task(at.ask("greedy"))
        await asyncio.sleep(0.5)
        at.let_go.set()
        assert (await queued).status_code == 200
        whole = next(one for one in at.backends if one.name == "a/m").load.answer.measured
        (attempt,) = next(one for one in at.gateway.access_lines() if not one.stream).attempts

    assert attempt.waited_s >= 0.4
    assert attempt.ms / 1e3 >= attempt.waited_s
    assert whole is not None
    assert whole < attempt.waited_s


async def test_streams_that_fail_or_are_left_give_their_connections_back(tmp_path: Path) -> None:
    alone = (
        "  - {name: alone, breaker: {min_requests: 1000}, retry: {attempts: 1},"
        " backends: [{provider: a, model: m}]}"
    )
    async with scene(tmp_path, connect_s=20, more=f"deadline_s: 60\n{alone}") as at:
        tasks = list["asyncio.Task[httpx.Response]"]()
        for _ in range(4):
            for how in FAULTS:
                tasks += at.begin("greedy", 2, how, stream=True, model="alone")
                tasks += at.begin("second", 1, how, stream=True, model="alone")
        for task in tasks[::3]:
            task.cancel()
        await asyncio.sleep(0.3)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        at.begin("greedy", 7, model="alone")
        at.begin("second", 1, model="alone")
        await at.until_slow(8)

    assert at.b.requests == []


async def test_a_key_in_the_queue_does_not_keep_a_circuit_open(tmp_path: Path) -> None:
    """A probe that waits for a connection would keep all others from probing."""
    async with scene(tmp_path, connect_s=20, breaker="cooldown_s: 0.2, max_cooldown_s: 0.2") as at:
        at.begin("greedy", 7)
        await at.until_slow(7)
        await at.ask("second", "lost")
        first = next(one for one in at.backends if one.name == "a/m")
        opened = first.breaker.open_until is not None
        await asyncio.sleep(0.4)

        probes = [await at.ask("greedy") for _ in range(3)]
        other = await at.ask("other")

    assert opened
    assert [one.headers["x-gateway-backend"] for one in probes] == ["b/m"] * 3
    assert other.headers["x-gateway-backend"] == "a/m"
    assert first.breaker.open_until is None


async def test_a_request_in_the_queue_is_not_hedged(tmp_path: Path) -> None:
    async with scene(tmp_path, connect_s=20, more="hedge_after_s: 0.05") as at:
        tasks = at.begin("greedy", 7, text="slow")
        await asyncio.sleep(0.5)
        hedged = len(at.b.requests)
        queued = asyncio.create_task(at.ask("greedy"))
        await asyncio.sleep(0.3)
        at.let_go.set()
        answer = await queued
        await asyncio.gather(*tasks)

    assert answer.status_code == 200
    assert len(at.b.requests) == hedged
