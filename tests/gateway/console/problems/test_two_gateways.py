"""What is wrong and what has happened, over two gateways with one store, restarts and commands."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from msgspec import Struct

from tests.gateway.cli.command_line import run
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "sqlite:///{folder}/store.db", spool: {folder}/{name}}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: key-of-ada}}]}}
server: {{drain_delay_s: 0}}
providers: [{{name: p, adapter: openai, base_url: "{p}", api_key: k}}]
models:
  - {{name: chat, retry: {{attempts: 1}}, backends: [{{provider: p, model: m}}]}}
{more}
"""
ADA = {"authorization": "Bearer key-of-ada"}


class Pair(Struct, frozen=True, kw_only=True):
    """Two gateways; the vendor of both fails while `failing` is set."""

    first: Commanded
    second: Commanded
    failing: asyncio.Event
    text: Callable[[str, str], str]
    stack: AsyncExitStack


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Pair]:
    folder, failing = tmp_path_factory.mktemp("pair"), asyncio.Event()

    async def vendor(request: Received, answer: Answer) -> None:
        if failing.is_set():
            await answer.json({"error": {"message": "on fire"}}, status=500)
        else:
            await answer.chat("hello")

    async with provider(vendor) as up, AsyncExitStack() as stack:

        def text(name: str, more: str = "") -> str:
            return CONFIG.format(folder=folder, name=name, p=up.base_url, more=more)

        gateways: list[Commanded] = []
        for name in ("one", "two"):
            file = folder / f"{name}.yaml"
            gateways.append(await stack.enter_async_context(forked(file, text(name))))
        first, second = gateways
        yield Pair(first=first, second=second, failing=failing, text=text, stack=stack)


async def asked(gateway: Commanded, path: str, **query: str) -> Any:
    async with gateway.client(**OPERATOR) as client:
        answer = await client.get(f"/admin/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a look finds something."""
    async with asyncio.timeout(SOON_S):
        while not (found := await look()):  # noqa: ASYNC110  nothing reports it
            await asyncio.sleep(0.1)
    return found


async def test_an_outage_is_a_problem_here_and_an_event_everywhere(pair: Pair) -> None:
    pair.failing.set()
    async with pair.first.client(**ADA) as client:
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        for _ in range(3):
            await client.post("/v1/chat/completions", json=body)
    here = await asked(pair.first, "problems")
    there = await until(lambda: problems_of_others(pair))
    told = await until(lambda: events(pair.second, kind="no_backend", model="chat"))
    key = ("--admin-key", "key-of-the-operator")
    command = await asyncio.to_thread(run, "status", "--url", pair.first.url, *key)
    listed = await asyncio.to_thread(
        run,
        "events",
        *("--url", pair.second.url, *key),
        *("--kind", "failing", "--since", "1h", "--json"),
    )

    assert here["worst"] == "critical"
    model, backend = here["problems"][:2]
    assert (model["kind"], model["message"]) == (
        "model_down",
        "chat: no backend works; requests fail",
    )
    assert (backend["kind"], backend["backend"], backend["cause"]) == (
        "backend_failing",
        "p/m",
        "upstream_failed: p: on fire",
    )
    assert model["since"] == pytest.approx(backend["since"])
    assert there["kind"] == "model_down"
    assert there["gateway"] == told[0]["gateway"] != ""
    assert command.exit_code == 4
    assert "no backend works" in command.output
    assert listed.exit_code == 0
    assert '"backend":"p/m"' in listed.output


async def problems_of_others(pair: Pair) -> Any:
    found = (await asked(pair.second, "problems"))["problems"]
    return next((one for one in found if one["gateway"]), None)


async def events(gateway: Commanded, **query: str) -> Any:
    found = await asked(gateway, "events", **query)
    assert found["complete"]
    return found["events"]


async def test_a_rejected_reload_is_in_the_band_until_the_file_is_valid(pair: Pair) -> None:
    pair.first.edit(pair.text("one", "modles: []"))
    await pair.first.said("modles")

    async def rejected() -> Any:
        found = (await asked(pair.first, "problems"))["problems"]
        return next((one for one in found if one["kind"] == "configuration_rejected"), None)

    problem = await until(rejected)
    async with signed_in(pair.first) as browser:
        page = (await browser.get("/admin/view/keys")).text
    await pair.first.reload(pair.text("one", "logging: {level: info}"))
    told = await until(lambda: events(pair.second, kind="reload_rejected"))
    again = await until(lambda: events(pair.second, kind="reloaded"))

    async with signed_in(pair.second) as browser:
        reloaded = (await browser.get("/admin/view/events", params={"kind": "reloaded"})).text

    assert re.search(r"configuration reloaded configuration [0-9a-f]{12}", text_of(reloaded))
    assert problem["severity"] == "warning"
    band = text_of(page.partition('id="problems"')[2].partition("</section>")[0])
    assert "The changed configuration file is rejected; the previous one is in force" in band
    assert "modles" in told[0]["text"]
    assert told[0]["time"] < again[0]["time"]


def signed_in(gateway: Commanded) -> httpx.AsyncClient:
    """A client as a browser with a session; programs may use the key for the page, too."""
    return gateway.client(**OPERATOR)


async def test_events_outlive_the_gateway_and_the_view_links_the_requests(pair: Pair) -> None:
    pair.first.process.terminate()
    await pair.first.process.wait()
    stopped = await until(lambda: events(pair.second, kind="stopped"))
    async with signed_in(pair.second) as browser:
        page = (await browser.get("/admin/view/events", params={"backend": "p"})).text
        wrong = await browser.get("/admin/events", params={"kind": "opened"})
        chinese = await browser.get("/admin/view/events", headers={"accept-language": "zh-CN"})

    assert stopped[0]["gateway"] == (await events(pair.second, kind="started"))[-1]["gateway"]
    assert "chat · p/m" in text_of(page)
    assert "failing requests upstream_failed: p: on fire" in text_of(page)
    assert '<a href="/admin/view/requests?backend=p%2Fm&amp;since=' in page
    assert wrong.status_code == 400
    assert "'opened' is not a kind of event; known: failing," in wrong.json()["error"]["message"]
    assert "<h1>事件</h1>" in chinese.text
