"""A changed configuration takes effect in all processes or in none, and no answer suffers."""

import asyncio
import re
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.fleet.processes.restart_required import FIXED
from tests.gateway.commanded import SOON_S, Commanded, connected
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{drain_delay_s: 0.1, max_in_flight: {edit}}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{keys}]}}
providers:
  - {{name: one, adapter: openai, base_url: {one}, api_key: k}}
  - {{name: other, adapter: openai, base_url: {other}, api_key: k}}
models:
  - {{name: chat, backends: [{{provider: {serves}, model: m-1}}]}}
"""
OPERATIONS = Path(__file__).parents[4] / "docs" / "operations.md"
ANNE, BOB = "{name: anne, key: key-of-anne}", "{name: bob, key: key-of-bob}"
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


class Rig:
    """The command between two providers, each of which streams until it is let go on.

    workers: a client for each process that serves.
    """

    def __init__(
        self,
        up: Commanded,
        one: Provider,
        other: Provider,
        workers: Sequence[httpx.AsyncClient],
    ) -> None:
        self.up = up
        self.workers = workers
        self.one = one
        self.other = other
        self.go_on = asyncio.Event()
        self._edits = count(1000)
        one.behaviour = other.behaviour = self._behave

    def text(self, serves: str = "one", keys: str = ANNE, more: str = "") -> str:
        """No two are the same, so each comes into force once."""
        urls = {"one": self.one.base_url, "other": self.other.base_url}
        return CONFIG.format(serves=serves, keys=keys, edit=next(self._edits), **urls) + more

    async def start_again(self) -> None:
        """Restore the first configuration, whatever the test before left."""
        self.go_on.clear()
        self.one.requests.clear()
        self.other.requests.clear()
        since = len(self.up.lines)
        self.up.edit(self.text())
        self.up.process.send_signal(signal.SIGHUP)
        await self.up.said("is in effect", since=since)

    async def _behave(self, request: Received, answer: Answer) -> None:
        if not request.json.get("stream"):
            await answer.chat()
            return
        await answer.begin_stream()
        await answer.text("first ")
        await self.go_on.wait()
        await answer.text("last")
        await answer.end_stream()


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
async def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Rig, None]:
    config: Path = tmp_path_factory.mktemp("reload") / "config.yaml"
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(provider())
        other = await stack.enter_async_context(provider())
        urls = {"one": one.base_url, "other": other.base_url}
        text = CONFIG.format(serves="one", keys=ANNE, edit=1, **urls)
        number = int(request.param)
        up = await stack.enter_async_context(forked(config, text, "--workers", str(number)))
        workers = [await connected(up, stack, worker) for worker in range(number)]
        yield Rig(up, one, other, workers)


@pytest.fixture
async def rig(started: Rig) -> Rig:
    await started.start_again()
    return started


async def backends(rig: Rig) -> set[str]:
    """Who answers, from every process."""
    key = {"authorization": "Bearer key-of-anne"}
    answers = [
        await client.post("/v1/chat/completions", json=HELLO, headers=key) for client in rig.workers
    ]
    return {answer.headers["x-gateway-backend"] for answer in answers}


async def test_an_edit_takes_effect_and_a_running_stream_goes_on_where_it_began(rig: Rig) -> None:
    async with rig.up.client(authorization="Bearer key-of-anne") as client:
        body = {**HELLO, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            await rig.up.reload(rig.text(serves="other"))
            answered = await backends(rig)
            rig.go_on.set()
            rest = [line async for line in lines if line]

    assert answered == {"other/m-1"}
    assert '"last"' in "".join(rest)
    assert rest[-1] == "data: [DONE]"


async def test_a_provider_that_is_gone_finishes_what_it_began(rig: Rig) -> None:
    without = re.sub(r"  - \{name: one.*\n", "", rig.text(serves="other"))
    async with rig.up.client(authorization="Bearer key-of-anne") as client:
        body = {**HELLO, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            await rig.up.reload(without)
            await rig.one.until(lambda: rig.one.open == 1)  # one of the test before may close late
            rig.go_on.set()
            rest = [line async for line in lines if line]
        await rig.one.until(lambda: rig.one.open == 0)

    assert rest[-1] == "data: [DONE]"


async def test_a_provider_that_stays_keeps_its_connections(rig: Rig) -> None:
    await backends(rig)
    accepted = rig.one.accepted

    await rig.up.reload(rig.text(keys=f"{ANNE}, {BOB}"))
    await backends(rig)

    assert rig.one.accepted == accepted


async def test_a_wrong_edit_is_refused_as_a_whole_and_reported_in_full(rig: Rig) -> None:
    since = len(rig.up.lines)
    rig.up.edit(rig.text(serves="nobody", more="limit: []\nprices: 3\n"))
    told = await rig.up.said("rejected", since=since)
    async with rig.up.client(authorization="Bearer key-of-anne") as client:
        async with asyncio.timeout(SOON_S):
            while "configuration" not in (ready := await client.get("/readyz")).json():  # noqa: ASYNC110  it is another process's doing
                await asyncio.sleep(0.01)
        operator = {"authorization": "Bearer key-of-the-operator"}
        metrics = (await client.get("/metrics", headers=operator)).text

    assert "models[0].backends[0]" in told
    assert "prices" in told
    assert "limit" in told
    assert await backends(rig) == {"one/m-1"}
    assert ready.status_code == 200
    assert "was rejected" in ready.json()["configuration"]
    assert "strowger_configuration_refused 1.0" in metrics


async def test_a_leaked_key_can_be_removed_after_a_file_that_no_parser_gets_through(
    rig: Rig,
) -> None:
    await rig.up.reload(rig.text(keys=f"{ANNE}, {BOB}"))
    since = len(rig.up.lines)
    rig.up.edit("a: " + "[" * 5000 + "]" * 5000)
    told = await rig.up.said("rejected", since=since)
    await rig.up.reload(rig.text())
    leaked = {"authorization": "Bearer key-of-bob"}
    answers = [await client.get("/v1/models", headers=leaked) for client in rig.workers]

    assert "config.yaml:1:36: nested more than 32 levels deep" in told
    assert {answer.status_code for answer in answers} == {401}


def test_operations_lists_what_only_a_restart_can_change() -> None:
    _, _, after = OPERATIONS.read_text("utf-8").partition("These need a restart")
    listed, _, _ = after.partition("\n- ")

    assert set(FIXED) - set(re.findall(r"`([a-z._]+)`", listed)) == set()


async def test_what_only_a_restart_can_change_is_refused_by_name(rig: Rig) -> None:
    since = len(rig.up.lines)
    rig.up.edit(rig.text(serves="other").replace("drain_delay_s: 0.1", "host: 127.0.0.2"))
    told = await rig.up.said("rejected", since=since)

    assert "server.host: changing it needs a restart" in told
    assert await backends(rig) == {"one/m-1"}


async def test_keys_are_added_and_removed_at_the_same_moment(rig: Rig) -> None:
    statuses: dict[str, list[int]] = {"anne": [], "bob": []}
    over = asyncio.Event()

    begun = [asyncio.Event() for _ in statuses]

    async def ask(who: str, begun: asyncio.Event) -> None:
        """Once more when it is over, too."""
        last = False
        async with rig.up.client(authorization=f"Bearer key-of-{who}") as client:
            while not last:
                last = over.is_set()
                status = (await client.get("/v1/models")).status_code
                statuses[who].append(401 if status == 429 else status)  # a wrong key, too often
                begun.set()

    asking = [asyncio.create_task(ask(*one)) for one in zip(statuses, begun, strict=True)]
    for one in begun:
        await one.wait()
    await rig.up.reload(rig.text(keys=BOB))
    over.set()
    await asyncio.gather(*asking)

    assert statuses["anne"] == sorted(statuses["anne"])
    assert statuses["bob"] == sorted(statuses["bob"], reverse=True)
    assert statuses["anne"][-1] == 401
    assert statuses["bob"][-1] == 200
