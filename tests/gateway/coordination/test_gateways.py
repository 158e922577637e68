"""Two gateways on one Redis share the state of their backends, and also work without it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack

import httpx
import msgspec
import pytest
from msgspec import Struct

from strowger_gateway.gateway.console.admin.backends import BackendView, ModelList
from tests.gateway.commanded import SOON_S, Commanded, connected
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider
from tests.stand_ins.redis_relay import Relay, relayed
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{redis_url: "{redis}"}}
auth: {{admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0}}
providers:
  - {{name: one, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{{pair}, name: pair,
     backends: [{{provider: one, model: pair-1}}, {{provider: one, model: pair-2}}]}}
  - {{{pair}, name: rests,
     backends: [{{provider: one, model: rests-1}}, {{provider: one, model: rests-2}}]}}
  - {{{pair}, name: again,
     backends: [{{provider: one, model: again-1}}, {{provider: one, model: again-2}}]}}
  - name: busy
    policy: least_busy
    backends: [{{provider: one, model: busy-1}}, {{provider: one, model: busy-2}}]
  - name: probed
    policy: in_order
    retry: {{attempts: 1}}
    breaker: {{min_requests: 2, cooldown_s: 2, max_cooldown_s: 2}}
    backends: [{{provider: one, model: probed-1}}, {{provider: one, model: probed-2}}]
"""
PAIR = "retry: {attempts: 1}, breaker: {min_requests: 2, cooldown_s: 60}, policy: in_order"
CHAT = "/v1/chat/completions"
OPERATOR = {"authorization": "Bearer key-of-the-operator"}
PAGE = {**OPERATOR, "accept": "text/html"}
OTHER = "other gateways run another configuration"
ASKED, TRIES = 20, 5
"""Requests, at least, that go on while Redis is away, and that are asked while it hangs."""


class Rig(Struct, kw_only=True, eq=False):
    """The second gateway has two workers. workers: a client for each process that serves, of both.

    relays: between each gateway and Redis.
    """

    redis: RedisServer
    relays: tuple[Relay, Relay]
    remote: Provider
    up: tuple[Commanded, Commanded]
    clients: tuple[httpx.AsyncClient, httpx.AsyncClient]
    workers: tuple[httpx.AsyncClient, ...]

    async def ask(self, gateway: int, model: str) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        return await self.clients[gateway].post(CHAT, json=body)

    async def metric(self, gateway: int, name: str) -> float:
        """Return a metric of one scrape."""
        lines = (await self.clients[gateway].get("/metrics")).text.splitlines()
        (found,) = [line.split()[1] for line in lines if line.startswith(f"{name} ")]
        return float(found)

    async def metrics(self, name: str) -> list[float]:
        """Return a metric of both gateways."""
        return [await self.metric(gateway, name) for gateway in (0, 1)]

    async def known(self, backend: str, condition: Callable[[BackendView], bool]) -> None:
        """Wait until the condition holds for the state of a backend in every process."""
        async with asyncio.timeout(SOON_S):
            for worker in self.workers:
                while not condition(await _view(worker, backend)):  # noqa: ASYNC110  it is another process's doing
                    await asyncio.sleep(0.02)

    async def overtakes(self, gateway: int) -> bool:
        """Whether a request is answered while Redis still owes its gateway an answer."""
        relay = self.relays[gateway]
        await until(lambda: relay.question is not None)
        question = relay.question
        assert (await self.ask(gateway, "busy")).status_code == 200
        return relay.question is question

    async def backend(self, gateway: int, model: str) -> str:
        """Who answered."""
        return (await self.ask(gateway, model)).headers["x-gateway-backend"]


@pytest.fixture(scope="module")
def redis() -> Generator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(scope="module")
async def started(
    redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Rig, None]:
    folder = tmp_path_factory.mktemp("gateways")
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        relays = [await stack.enter_async_context(relayed(redis.port)) for _ in range(2)]
        texts = [CONFIG.format(url=remote.base_url, redis=one.url, pair=PAIR) for one in relays]
        files = [folder / name / "config.yaml" for name in ("a", "b")]
        for file in files:
            file.parent.mkdir()
        one, two = await asyncio.gather(
            stack.enter_async_context(forked(files[0], texts[0])),
            stack.enter_async_context(forked(files[1], texts[1], "--workers", "2")),
        )
        clients = (one.client(), two.client())
        for client in clients:
            await stack.enter_async_context(client)
        processes = ((one, 0), (two, 0), (two, 1))
        workers = [await connected(up, stack, worker) for up, worker in processes]
        yield Rig(
            redis=redis,
            relays=(relays[0], relays[1]),
            remote=remote,
            up=(one, two),
            clients=clients,
            workers=tuple(workers),
        )


@pytest.fixture
def rig(started: Rig) -> Rig:
    started.remote.behaviour = answers
    started.remote.requests.clear()
    return started


async def broken(request: Received, answer: Answer) -> None:
    """Its first backend, that is."""
    if str(request.json["model"]).endswith("-1"):
        await answer.json({"error": {"message": "broken"}}, status=500)
    else:
        await answers(request, answer)


async def _view(worker: httpx.AsyncClient, backend: str) -> BackendView:
    answer = await worker.get("/admin/backends", headers=OPERATOR)
    models = msgspec.json.decode(answer.content, type=ModelList).models
    (found,) = [one for model in models for one in model.backends if one.name == backend]
    return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110  it is another process's doing
            await asyncio.sleep(0.02)


async def comes_to(rig: Rig, gateway: int, model: str, backend: str) -> None:
    """The gateway has not seen enough failures itself to stop using its first backend."""
    async with asyncio.timeout(SOON_S):
        while await rig.backend(gateway, model) != backend:  # noqa: ASYNC110  it is another process's doing
            await asyncio.sleep(0.05)


async def test_a_circuit_opens_in_all_processes_on_what_two_gateways_have_seen(rig: Rig) -> None:
    """Two failures of one are its own affair; one failure of the other confirms them."""
    rig.remote.behaviour = broken
    for _ in range(2):
        await rig.ask(0, "pair")
    await asyncio.sleep(1.0)
    alone = [await _view(worker, "one/pair-1") for worker in rig.workers]
    await rig.ask(1, "pair")
    rig.remote.behaviour = answers

    await rig.known("one/pair-1", lambda one: one.health.failures_seen_by == 2)
    backends = [await rig.backend(gateway, "pair") for gateway in (0, 1, 1)]
    body = {"model": "pair", "messages": [{"role": "user", "content": "hi"}]}
    told = (await rig.clients[1].post("/admin/explain", json=body, headers=OPERATOR)).text
    page = (await rig.clients[1].get("/admin", headers=PAGE)).text

    assert [one.health.breaker for one in alone] == ["open", "closed", "closed"]
    assert [one.health.failures_seen_by for one in alone] == [1, 0, 0]
    assert backends == ["one/pair-2"] * 3
    assert "circuit open on failures of 2 gateways" in told
    assert "circuit open on failures of 2 gateways" in page
    assert sum(await rig.metrics("strowger_circuits_opened_by_gateways_total")) >= 1


async def test_a_cooldown_in_one_gateway_holds_in_all(rig: Rig) -> None:
    async def limited(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "slowly"}}, 429, {"retry-after": "60"})

    rig.remote.behaviour = limited
    await rig.ask(1, "rests")
    rig.remote.behaviour = answers

    await comes_to(rig, 0, "rests", "one/rests-2")


async def test_the_least_busy_backend_is_that_of_all_gateways(rig: Rig) -> None:
    go_on = asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        if request.json["model"] == "busy-1":
            await go_on.wait()
        await answer.chat()

    rig.remote.behaviour = waits
    asked = asyncio.create_task(rig.ask(0, "busy"))
    await until(lambda: bool(rig.remote.requests))
    while rig.remote.requests[-1].json["model"] != "busy-1":
        await asked
        asked = asyncio.create_task(rig.ask(0, "busy"))
        await asyncio.sleep(0.05)
    await rig.known(
        "one/busy-1",
        lambda one: one.health.in_flight + one.health.in_flight_other_processes == 1,
    )
    backends = [await rig.backend(1, "busy") for _ in range(8)]
    go_on.set()
    await asked

    assert backends == ["one/busy-2"] * 8


async def test_one_request_of_all_gateways_probes_a_backend_that_was_down(rig: Rig) -> None:
    let = asyncio.Event()

    async def slow(request: Received, answer: Answer) -> None:
        if request.json["model"] == "probed-1":
            await let.wait()
        await answer.chat()

    def probes() -> int:
        return sum(one.json["model"] == "probed-1" for one in rig.remote.requests)

    rig.remote.behaviour = broken
    for gateway in (0, 0, 1):
        await rig.ask(gateway, "probed")
    await rig.known("one/probed-1", lambda one: one.health.breaker != "closed")
    rig.remote.behaviour = slow
    rig.remote.requests.clear()
    asked: list[asyncio.Task[httpx.Response]] = []
    async with asyncio.timeout(SOON_S):
        while not probes():
            asked += [asyncio.create_task(rig.ask(gateway, "probed")) for gateway in (0, 1)]
            await asyncio.sleep(0.05)
    asked += [asyncio.create_task(rig.ask(gateway, "probed")) for gateway in (0, 1, 1) * 5]
    await until(lambda: sum(not one.done() for one in asked) == 1)
    await asyncio.sleep(0.5)
    during = probes()
    let.set()
    served = [(await one).headers["x-gateway-backend"] for one in asked]
    async with asyncio.timeout(SOON_S):
        for gateway in (0, 1):
            while not (await rig.ask(gateway, "probed")).headers["x-gateway-backend"].endswith("1"):  # noqa: ASYNC110  it is another process's doing
                await asyncio.sleep(0.05)

    assert during == 1
    assert served.count("one/probed-1") == 1
    assert set(served) == {"one/probed-1", "one/probed-2"}


@pytest.mark.parametrize(
    ("away", "back"),
    [(RedisServer.kill, RedisServer.start), (RedisServer.hang, RedisServer.go_on)],
    ids=["killed", "hanging"],
)
async def test_without_redis_requests_go_on_and_the_log_says_so_once(
    rig: Rig, away: Callable[[RedisServer], None], back: Callable[[RedisServer], None]
) -> None:
    since = [len(up.lines) for up in rig.up]
    statuses: list[int] = []
    away(rig.redis)
    told = [
        asyncio.create_task(up.said("other gateways unreachable", since=seen))
        for up, seen in zip(rig.up, since, strict=True)
    ]
    while len(statuses) < ASKED or not all(one.done() for one in told):
        statuses += [(await rig.ask(gateway, "busy")).status_code for gateway in (0, 1)]
        await asyncio.sleep(0.01)
    alone = await rig.metrics("strowger_redis_available")
    heard = await rig.metrics("strowger_redis_last_success_timestamp_seconds")
    back(rig.redis)
    for up, seen in zip(rig.up, since, strict=True):
        await up.said("reachable again", since=seen)
    async with asyncio.timeout(SOON_S):
        while await rig.metric(1, "strowger_gateways") < 2:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.05)

    lines = [up.lines[seen:] for up, seen in zip(rig.up, since, strict=True)]
    assert set(statuses) == {200}
    assert [sum("other gateways unreachable" in line for line in own) for own in lines] == [1, 1]
    assert [sum("reachable again" in line for line in own) for own in lines] == [1, 1]
    assert (alone, await rig.metrics("strowger_redis_available")) == ([0, 0], [1, 1])
    again = await rig.metrics("strowger_redis_last_success_timestamp_seconds")
    assert all(late > early for early, late in zip(heard, again, strict=True))


async def test_no_request_waits_for_redis_while_it_hangs(rig: Rig) -> None:
    """A busy machine may need several attempts; if requests wait, no number of them helps."""
    rig.redis.hang()
    tries = [[await rig.overtakes(gateway) for _ in range(TRIES)] for gateway in (0, 1)]
    rig.redis.go_on()
    async with asyncio.timeout(SOON_S):
        while 0 in await rig.metrics("strowger_redis_available"):  # noqa: ASYNC110  as above
            await asyncio.sleep(0.05)

    assert [any(own) for own in tries] == [True, True]


async def test_gateways_that_have_redis_back_share_again(rig: Rig) -> None:
    rig.redis.kill()
    since = [len(up.lines) for up in rig.up]
    for up, seen in zip(rig.up, since, strict=True):
        await up.said("other gateways unreachable", since=seen)
    rig.remote.behaviour = broken
    for gateway in (0, 0, 1):
        await rig.ask(gateway, "again")
    meanwhile = [one.json["model"] for one in rig.remote.requests]
    rig.remote.behaviour = answers
    rig.redis.start()

    await rig.known("one/again-1", lambda one: one.health.failures_seen_by == 2)

    assert meanwhile == ["again-1"] * 3


async def test_a_gateway_with_another_configuration_shows_in_metrics_and_on_the_page(
    rig: Rig,
) -> None:
    """The addresses of Redis, which may have a password, differ between the two all the time."""
    text = rig.up[0].config.read_text()
    before = await hashes(rig)
    await rig.up[0].reload(text.replace("max_cooldown_s: 2", "max_cooldown_s: 3"))
    changed = await hashes(rig)
    async with asyncio.timeout(SOON_S):
        while await rig.metrics("strowger_gateways_differing") != [1, 1]:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.05)
        for worker in rig.workers:
            while OTHER not in (await worker.get("/admin", headers=PAGE)).text:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.05)
    await rig.up[0].reload(text)
    async with asyncio.timeout(SOON_S):
        while await rig.metrics("strowger_gateways_differing") != [0, 0]:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.05)
        while OTHER in (page := (await rig.workers[0].get("/admin", headers=PAGE)).text):  # noqa: ASYNC110  as above
            await asyncio.sleep(0.05)

    assert before[0] == before[1] == changed[1] != changed[0]
    assert await hashes(rig) == before
    assert f"Configuration {before[0]}." in page


async def hashes(rig: Rig) -> list[str]:
    """The hash of each gateway, which its metrics show as well."""
    found: list[str] = []
    for client in rig.clients:
        found.append((await client.get("/readyz")).json()["config_hash"])
        assert (
            f'strowger_config_info{{hash="{found[-1]}"}} 1.0' in (await client.get("/metrics")).text
        )
    return found
