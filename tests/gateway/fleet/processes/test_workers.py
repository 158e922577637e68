"""Several workers are one gateway: one health, one set of counters, one shutdown."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.console.admin.backends import BackendView, ModelList
from tests.gateway.commanded import SOON_S, Commanded, commanded, connected, pid_of
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth: {{admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0.3, drain_timeout_s: 20, max_in_flight: 3}}
providers:
  - {{name: one, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - name: chat
    retry: {{attempts: 1}}
    breaker: {{min_requests: 2, cooldown_s: 1, max_cooldown_s: 1}}
    backends: [{{provider: one, model: m-1}}]
  - name: pair
    policy: in_order
    retry: {{attempts: 1}}
    breaker: {{min_requests: 2, cooldown_s: 60, max_cooldown_s: 60}}
    backends: [{{provider: one, model: m-2}}, {{provider: one, model: m-3}}]
  - name: probed
    policy: in_order
    retry: {{attempts: 1}}
    breaker: {{min_requests: 2, cooldown_s: 1, max_cooldown_s: 1}}
    backends: [{{provider: one, model: m-4}}, {{provider: one, model: m-5}}]
  - {{name: rare, retry: {{attempts: 1}}, backends: [{{provider: one, model: m-6}}]}}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**HELLO, "stream": True}
CHAT = "/v1/chat/completions"
OPERATOR = {"authorization": "Bearer key-of-the-operator"}


class Rig:
    """Two workers before one provider. go_on: lets its streams end."""

    def __init__(self, up: Commanded, remote: Provider) -> None:
        self.up = up
        self.remote = remote
        self.go_on = asyncio.Event()

    async def waits(self, request: Received, answer: Answer) -> None:
        """A provider whose streams stay open."""
        await answer.begin_stream()
        await answer.text("first ")
        await self.go_on.wait()
        await answer.text("last")
        await answer.end_stream()


@pytest.fixture(scope="module")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    config: Path = tmp_path_factory.mktemp("workers") / "config.yaml"
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        text = CONFIG.format(url=remote.base_url)
        up = await stack.enter_async_context(commanded(config, text, "--workers", "2"))
        yield Rig(up, remote)


@pytest.fixture
def rig(started: Rig) -> Rig:
    started.remote.behaviour = answers
    started.remote.requests.clear()
    started.go_on.clear()
    return started


async def known(
    worker: httpx.AsyncClient, backend: str, condition: Callable[[BackendView], bool]
) -> None:
    """Wait until the condition holds for the state of a backend in this worker."""
    async with asyncio.timeout(SOON_S):
        while True:
            models = msgspec.json.decode(
                (await worker.get("/admin/backends", headers=OPERATOR)).content, type=ModelList
            ).models
            (found,) = [one for model in models for one in model.backends if one.name == backend]
            if condition(found):
                return
            await asyncio.sleep(0.02)


def has_failed(backend: BackendView) -> bool:
    return backend.health.failed_s_ago is not None


def in_flight(backend: BackendView) -> int:
    return backend.health.in_flight + backend.health.in_flight_other_processes


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110  it is another process's doing
            await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def counted(metrics: str, name: str, *labels: str) -> float:
    """The sum of the samples that have all of these labels."""
    lines = [line for line in metrics.splitlines() if re.match(rf"{name}[ {{]", line)]
    return sum(float(line.split()[-1]) for line in lines if all(one in line for one in labels))


async def test_one_scrape_of_any_worker_has_what_all_have_counted(rig: Rig) -> None:
    async with AsyncExitStack() as stack:
        clients = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        before = (await clients[0].get("/metrics")).text
        for client, times in zip(clients, (1, 2), strict=True):
            for _ in range(times):
                await client.post(CHAT, json=HELLO)
        scraped = [(await client.get("/metrics")).text for client in clients]

    ok = ('model="chat"', 'status="200"')
    grown = [
        counted(text, "strowger_requests_total", *ok)
        - counted(before, "strowger_requests_total", *ok)
        for text in scraped
    ]
    assert grown == [3, 3]
    assert counted(scraped[0], "strowger_workers") == 2
    assert scraped[1].count("# TYPE strowger_requests_total counter") == 1


async def test_every_worker_returns_a_request_that_another_one_answered(rig: Rig) -> None:
    operator = {"authorization": "Bearer key-of-the-operator"}
    async with AsyncExitStack() as stack:
        clients = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        answers_ = [await client.post(CHAT, json=HELLO) for client in clients]
        ids = [answer.headers["x-gateway-request-id"] for answer in answers_]
        told = [
            (await client.get(f"/admin/requests/{one}", headers=operator)).json()["request_id"]
            for client in clients
            for one in ids
        ]
        listed = await clients[0].get("/admin/requests", params={"limit": 2}, headers=operator)

    assert told == [*ids, *ids]
    assert {one["request_id"] for one in listed.json()["requests"]} == set(ids)


async def test_a_breaker_that_opens_in_one_worker_is_open_in_the_other(rig: Rig) -> None:
    async def broken(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "broken"}}, status=500)

    rig.remote.behaviour = broken
    async with AsyncExitStack() as stack:
        one, other = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        for _ in range(2):
            await one.post(CHAT, json={**HELLO, "model": "pair"})
        asked = len(rig.remote.requests)
        rig.remote.behaviour = answers
        await known(other, "one/m-2", lambda one: one.health.breaker == "open")
        answer = await other.post(CHAT, json={**HELLO, "model": "pair"})

    assert asked == 2
    assert answer.headers["x-gateway-backend"] == "one/m-3"


async def test_one_request_of_the_whole_gateway_probes_a_backend_that_was_down(rig: Rig) -> None:
    let = asyncio.Event()

    async def broken(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "broken"}}, status=500)

    def sent() -> int:
        return sum(one.json["model"] == "m-4" for one in rig.remote.requests)

    async def slow(request: Received, answer: Answer) -> None:
        if request.json["model"] == "m-4":
            await let.wait()
        await answer.chat()

    hello = {**HELLO, "model": "probed"}
    rig.remote.behaviour = broken
    async with AsyncExitStack() as stack:
        one, other = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        for _ in range(2):
            await one.post(CHAT, json=hello)
        rig.remote.behaviour = slow
        for worker in (one, other):
            await known(worker, "one/m-4", lambda each: each.health.breaker == "half_open")
        rig.remote.requests.clear()
        probe = asyncio.create_task(one.post(CHAT, json=hello))
        await rig.remote.until(lambda: sent() == 1)
        beside = await other.post(CHAT, json=hello)
        during = sent()
        let.set()
        probed = await probe
        await known(other, "one/m-4", lambda each: each.health.breaker == "closed")
        after = await other.post(CHAT, json=hello)

    assert during == 1
    found = [one.headers["x-gateway-backend"] for one in (probed, beside, after)]
    assert found == ["one/m-4", "one/m-5", "one/m-4"]


async def test_an_outage_that_each_worker_sees_a_part_of_is_one_event_for_all(rig: Rig) -> None:
    async def fails(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "out of memory"}}, 500)

    rare, since = {**HELLO, "model": "rare"}, len(rig.up.lines)
    async with AsyncExitStack() as stack:
        clients = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        rig.remote.behaviour = fails
        for place, worker in enumerate((0, 1, 0)):
            await clients[worker].post(CHAT, json=rare)
            if place == 0:
                await known(clients[1], "one/m-6", has_failed)
            else:
                await asyncio.sleep(0.2)  # what the other worker has heard shows nowhere
        for client in clients:
            await known(client, "one/m-6", lambda one: not one.health.up)
        down = (await clients[1].get("/metrics")).text
        rig.remote.behaviour = answers
        await clients[1].post(CHAT, json=rare)
        for client in clients:
            await known(client, "one/m-6", lambda one: one.health.up)
        up = (await clients[0].get("/metrics")).text
        events = [
            (await client.get("/admin/events", params={"model": "rare"}, headers=OPERATOR)).json()
            for client in clients
        ]
        await rig.up.said("one/m-6: works again", since=since)

    labels = ('backend="one/m-6"', 'model="rare"')
    assert counted(down, "strowger_backend_available", *labels) == 0
    assert counted(up, "strowger_backend_available", *labels) == 1
    assert counted(up, "strowger_circuit_transitions_total", *labels) == 2
    kinds = [one["kind"] for one in reversed(events[0]["events"])]
    assert kinds == ["failing", "no_backend", "recovered", "backend_again"]
    assert events[1] == events[0]
    assert events[0]["events"][-1]["message"] == "one: out of memory"
    told = [line for line in rig.up.lines[since:] if "rare: one/m-6: failing" in line]
    assert len(told) == 1


async def test_requests_under_way_are_counted_over_all_workers(rig: Rig) -> None:
    rig.remote.behaviour = rig.waits
    async with AsyncExitStack() as stack:
        lines: list[AsyncIterator[str]] = []
        for worker in (0, 0, 1):
            client = await connected(rig.up, stack, worker)
            stream = await stack.enter_async_context(client.stream("POST", CHAT, json=STREAM))
            lines.append(stream.aiter_lines())
            await anext(lines[-1])
        workers = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        for worker in workers:
            await known(worker, "one/m-1", lambda one: in_flight(one) == 3)
        refused = [(await worker.post(CHAT, json=HELLO)).status_code for worker in workers]
        rig.go_on.set()

    assert refused == [503, 503]


async def test_a_killed_worker_breaks_no_other_stream_and_its_counts_stay(rig: Rig) -> None:
    rig.remote.behaviour = rig.waits
    async with AsyncExitStack() as stack:
        doomed = await connected(rig.up, stack, 0)
        other = await connected(rig.up, stack, 1)
        rig.go_on.set()
        await doomed.post(CHAT, json=STREAM)
        rig.go_on.clear()
        before = (await other.get("/metrics")).text
        stream = await stack.enter_async_context(other.stream("POST", CHAT, json=STREAM))
        lines = stream.aiter_lines()
        await anext(lines)
        since = len(rig.up.lines)
        killed = pid_of(doomed)
        os.kill(killed, signal.SIGKILL)
        told = await rig.up.said("killed by signal 9", since=since)
        rig.go_on.set()
        rest = [line async for line in lines if line]
        again = await connected(rig.up, stack, 0)
        served = await again.post(CHAT, json=STREAM)
        after = (await again.get("/metrics")).text

    name, ok = "strowger_requests_total", ('model="chat"', 'status="200"')
    assert "worker 0" in told
    assert rest[-1] == "data: [DONE]"
    assert served.status_code == 200
    assert counted(after, name, *ok) == counted(before, name, *ok) + 2
    assert counted(after, "strowger_worker_restarts_total") == 1


async def test_the_traffic_of_all_workers_is_in_the_series_of_each(rig: Rig) -> None:
    operator = {"authorization": "Bearer key-of-the-operator"}
    async with AsyncExitStack() as stack:
        clients = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        before = await settled_series(clients[0], operator)
        for client, times in zip(clients, (1, 2), strict=True):
            for _ in range(times):
                await client.post(CHAT, json=HELLO)
        async with asyncio.timeout(SOON_S):
            for client in clients:
                while (  # noqa: ASYNC110  nothing reports it
                    await requests_in_series(client, operator) != before + 3
                ):
                    await asyncio.sleep(0.2)


async def settled_series(client: httpx.AsyncClient, headers: dict[str, str]) -> int:
    """The count once the store has the requests of earlier tests, whose workers are gone."""
    before = -1
    while (found := await requests_in_series(client, headers)) != before:
        before = found
        await asyncio.sleep(3)
    return found


async def requests_in_series(client: httpx.AsyncClient, headers: dict[str, str]) -> int:
    told = (await client.get("/admin/series", params={"window": "15m"}, headers=headers)).json()
    return sum(
        point["requests"]
        for one in told["series"]
        if one["model"] == "chat"
        for point in one["points"]
    )


async def test_no_count_falls_or_doubles_while_a_worker_dies_in_the_middle_of_a_scrape(
    rig: Rig,
) -> None:
    async with AsyncExitStack() as stack:
        clients = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        for client in clients:
            await client.post(CHAT, json=HELLO)
        before = (await clients[0].get("/metrics")).text
        since, doomed = len(rig.up.lines), pid_of(clients[1])
        os.kill(doomed, signal.SIGSTOP)
        scraping = asyncio.create_task(clients[0].get("/metrics"))
        await asyncio.sleep(0.1)
        os.kill(doomed, signal.SIGKILL)
        during = (await scraping).text
        await rig.up.said("killed by signal 9", since=since)
        after = (await clients[0].get("/metrics")).text

    name, ok = "strowger_requests_total", ('model="chat"', 'status="200"')
    counts = [counted(text, name, *ok) for text in (before, during, after)]
    assert counts == [counts[0]] * 3


async def test_a_worker_that_dies_during_a_reload_makes_no_edit_a_wrong_one(rig: Rig) -> None:
    more = "  - {name: late, backends: [{provider: one, model: m-4}]}\n"
    async with AsyncExitStack() as stack:
        doomed = pid_of(await connected(rig.up, stack, 0))
        since = len(rig.up.lines)
        os.kill(doomed, signal.SIGSTOP)
        rig.up.edit(CONFIG.format(url=rig.remote.base_url) + more)
        await rig.up.said("has changed", since=since)
        await asyncio.sleep(0.1)
        os.kill(doomed, signal.SIGKILL)
        await rig.up.said("is in effect", since=since)
        clients = [await connected(rig.up, stack, worker) for worker in (0, 1)]
        found = [await client.post(CHAT, json={**HELLO, "model": "late"}) for client in clients]

    assert [one.status_code for one in found] == [200, 200]
    assert not any("rejected" in line for line in rig.up.lines[since:])


async def test_no_secret_is_on_a_workers_command_line_or_in_its_environment(rig: Rig) -> None:
    async with AsyncExitStack() as stack:
        pid = pid_of(await connected(rig.up, stack, 1))

    for place in ("cmdline", "environ"):
        assert b"sk-of-the-operator" not in await asyncio.to_thread(
            Path(f"/proc/{pid}/{place}").read_bytes
        )


async def test_sigterm_drains_every_worker(rig: Rig, tmp_path: Path) -> None:
    rig.remote.behaviour = rig.waits
    text = CONFIG.format(url=rig.remote.base_url)
    async with (
        commanded(tmp_path / "config.yaml", text, "--workers", "2") as up,
        AsyncExitStack() as stack,
    ):
        clients = [await connected(up, stack, worker) for worker in (0, 1)]
        lines: list[AsyncIterator[str]] = []
        for worker in (0, 1):
            client = await connected(up, stack, worker)
            stream = await stack.enter_async_context(client.stream("POST", CHAT, json=STREAM))
            lines.append(stream.aiter_lines())
            await anext(lines[-1])
        up.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SOON_S):
            for client in clients:
                while (await client.get("/readyz")).status_code == 200:  # noqa: ASYNC110  as above
                    await asyncio.sleep(0.02)
        await asyncio.sleep(0.8)  # more than drain_delay_s
        refused = [await client.post(CHAT, json=HELLO) for client in clients]
        rig.go_on.set()
        rests = [[line async for line in one if line] for one in lines]
        await asyncio.wait_for(up.process.wait(), SOON_S)

    assert [one.status_code for one in refused] == [503, 503]
    assert [one.headers["connection"] for one in refused] == ["close", "close"]
    assert [one[-1] for one in rests] == ["data: [DONE]", "data: [DONE]"]
    assert up.process.returncode == 0
    assert sorted(str(line["status"]) for line in up.access) == ["200", "200", "503", "503"]


async def test_workers_end_when_the_process_that_leads_is_killed(rig: Rig, tmp_path: Path) -> None:
    rig.remote.behaviour = rig.waits
    text = CONFIG.format(url=rig.remote.base_url)
    async with (
        commanded(tmp_path / "config.yaml", text, "--workers", "2") as up,
        AsyncExitStack() as stack,
    ):
        clients = [await connected(up, stack, worker) for worker in (0, 1)]
        pids = [pid_of(client) for client in clients]
        stream = await stack.enter_async_context(clients[0].stream("POST", CHAT, json=STREAM))
        lines = stream.aiter_lines()
        await anext(lines)
        up.process.kill()
        await until(lambda: not alive(pids[1]))
        rig.go_on.set()
        rest = [line async for line in lines if line]
        await until(lambda: not alive(pids[0]))
        with pytest.raises(httpx.ConnectError):
            await httpx.AsyncClient(timeout=60).get(up.url)

    assert rest[-1] == "data: [DONE]"
