"""A changed configuration comes into force everywhere or nowhere, and nobody's answer suffers."""

import asyncio
import re
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.gateway.commanded import Commanded, commanded
from tests.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{drain_delay_s: 0.1}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{keys}]}}
providers:
  - {{name: one, adapter: openai, base_url: {one}, api_key: k}}
  - {{name: other, adapter: openai, base_url: {other}, api_key: k}}
models:
  - {{name: chat, backends: [{{provider: {serves}, model: m-1}}]}}
"""
ANNE, BOB = "{name: anne, key: key-of-anne}", "{name: bob, key: key-of-bob}"
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


class Rig:
    """The command between two providers, each of which streams until it is let go on."""

    def __init__(self, up: Commanded, one: Provider, other: Provider) -> None:
        self.up = up
        self.one = one
        self.other = other
        self.go_on = asyncio.Event()
        one.behaviour = other.behaviour = self._behave

    def text(self, serves: str = "one", keys: str = ANNE, more: str = "") -> str:
        urls = {"one": self.one.base_url, "other": self.other.base_url}
        return CONFIG.format(serves=serves, keys=keys, **urls) + more

    async def start_again(self) -> None:
        """The first configuration in force, whatever the test before left."""
        self.go_on.clear()
        self.one.requests.clear()
        self.other.requests.clear()
        self.up.edit(self.text())
        since = len(self.up.lines)
        self.up.process.send_signal(signal.SIGHUP)
        await self.up.said("force", since=since)

    async def _behave(self, request: Received, answer: Answer) -> None:
        if not request.json.get("stream"):
            await answer.chat()
            return
        await answer.begin_stream()
        await answer.text("first ")
        await self.go_on.wait()
        await answer.text("last")
        await answer.end_stream()


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
async def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Rig, None]:
    config: Path = tmp_path_factory.mktemp("reload") / "config.yaml"
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(provider())
        other = await stack.enter_async_context(provider())
        urls = {"one": one.base_url, "other": other.base_url}
        text = CONFIG.format(serves="one", keys=ANNE, **urls)
        up = await stack.enter_async_context(
            commanded(config, text, "--workers", str(request.param))
        )
        yield Rig(up, one, other)


@pytest.fixture
async def rig(started: Rig) -> Rig:
    await started.start_again()
    return started


async def backends(rig: Rig, times: int = 8) -> set[str]:
    """Who answers, over as many connections, and so from every process."""
    found: set[str] = set()
    for _ in range(times):
        async with rig.up.client(authorization="Bearer key-of-anne") as client:
            answer = await client.post("/v1/chat/completions", json=HELLO)
            found.add(answer.headers["x-gateway-backend"])
    return found


async def test_an_edit_takes_effect_and_a_running_stream_goes_on_where_it_began(rig: Rig) -> None:
    async with rig.up.client(authorization="Bearer key-of-anne") as client:
        body = {**HELLO, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            began = time.monotonic()
            await rig.up.reload(rig.text(serves="other"))
            took = time.monotonic() - began
            answered = await backends(rig)
            rig.go_on.set()
            rest = [line async for line in lines if line]

    assert answered == {"other/m-1"}
    assert '"last"' in "".join(rest)
    assert rest[-1] == "data: [DONE]"
    assert took < 10


async def test_a_provider_that_is_gone_finishes_what_it_began(rig: Rig) -> None:
    without = re.sub(r"  - \{name: one.*\n", "", rig.text(serves="other"))
    async with rig.up.client(authorization="Bearer key-of-anne") as client:
        body = {**HELLO, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            await rig.up.reload(without)
            open_meanwhile = rig.one.open
            rig.go_on.set()
            rest = [line async for line in lines if line]
        await rig.one.until(lambda: rig.one.open == 0)

    assert open_meanwhile == 1
    assert rest[-1] == "data: [DONE]"


async def test_a_provider_that_stays_keeps_its_connections(rig: Rig) -> None:
    await backends(rig)
    accepted = rig.one.accepted

    await rig.up.reload(rig.text(keys=f"{ANNE}, {BOB}"))
    await backends(rig)

    assert rig.one.accepted == accepted


async def test_a_wrong_edit_is_refused_as_a_whole_and_told_in_full(rig: Rig) -> None:
    since = len(rig.up.lines)
    rig.up.edit(rig.text(serves="nobody", more="limit: []\nprices: 3\n"))
    told = await rig.up.said("refused", since=since)
    async with rig.up.client(authorization="Bearer key-of-anne") as client:
        ready = await client.get("/readyz")
        metrics = (await client.get("/metrics")).text

    assert "models[0].backends[0]" in told
    assert "prices" in told
    assert "limit" in told
    assert await backends(rig) == {"one/m-1"}
    assert ready.status_code == 200
    assert "was refused" in ready.json()["configuration"]
    assert "strowger_configuration_refused 1.0" in metrics


async def test_what_a_restart_alone_can_change_is_refused_by_name(rig: Rig) -> None:
    since = len(rig.up.lines)
    rig.up.edit(rig.text(serves="other").replace("drain_delay_s: 0.1", "host: 127.0.0.2"))
    told = await rig.up.said("refused", since=since)

    assert "server.host: changing it needs a restart" in told
    assert await backends(rig) == {"one/m-1"}


async def test_keys_come_and_go_at_once_with_no_moment_in_between(rig: Rig) -> None:
    statuses: dict[str, list[int]] = {"anne": [], "bob": []}
    over = asyncio.Event()

    async def ask(who: str) -> None:
        async with rig.up.client(authorization=f"Bearer key-of-{who}") as client:
            while not over.is_set():
                statuses[who].append((await client.get("/v1/models")).status_code)

    asking = [asyncio.create_task(ask(who)) for who in statuses]
    await asyncio.sleep(0.1)
    await rig.up.reload(rig.text(keys=BOB))
    await asyncio.sleep(0.2)
    over.set()
    await asyncio.gather(*asking)

    assert statuses["anne"] == sorted(statuses["anne"])
    assert statuses["bob"] == sorted(statuses["bob"], reverse=True)
    assert statuses["anne"][-1] == 401
    assert statuses["bob"][-1] == 200
