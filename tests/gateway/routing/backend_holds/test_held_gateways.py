"""Backends out of service in running gateways: two processes of one, another one, and restarts."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.cli.command_line import run
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded, connected
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import Answer, Received, delta_body, provider

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "sqlite:///{folder}/store.db", spool: {folder}/{name}}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: key-of-ada}}]}}
server: {{drain_delay_s: 0}}
providers:
  - name: p
    adapter: openai
    base_url: "{p}"
    api_key: k
    health_check: {{every_s: 1, path: /health}}
  - {{name: q, adapter: openai, base_url: "{q}", api_key: k}}
models:
  - name: chat
    policy: in_order
    backends: [{{provider: p, model: m}}, {{provider: q, model: n}}]
  - {{name: solo, backends: [{{provider: p, model: m}}]}}
  - {{name: safe, backends: [{{provider: p, model: m}}], fallback: [other]}}
  - {{name: other, backends: [{{provider: q, model: n}}], mirror: {{backend: p/m, share: 1}}}}
  - {{name: wild-*, backends: [{{provider: p, model: "*"}}]}}
"""
ADA = {"authorization": "Bearer key-of-ada"}


class Vendor:
    """Says its name; a request that asks to hold is streamed until `release`."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, 0
        self.begun, self.release = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Received, answer: Answer) -> None:
        self.asked += 1
        if b"hold the line" not in request.body:
            await answer.chat(self.name)
            return
        await answer.begin_stream()
        await answer.event(delta_body({"role": "assistant", "content": "first "}))
        self.begun.set()
        await self.release.wait()
        await answer.text("last")
        await answer.end_stream()


class Up(Struct, frozen=True, kw_only=True):
    """A gateway with two workers, and a client of each of them."""

    gateway: Commanded
    workers: tuple[httpx.AsyncClient, ...]
    text: Callable[[str], str]
    p: Vendor
    q: Vendor
    folder: Path


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Up]:
    folder, p, q = tmp_path_factory.mktemp("held"), Vendor("p"), Vendor("q")
    async with provider(p) as one, provider(q) as other, AsyncExitStack() as stack:

        def text(name: str) -> str:
            return CONFIG.format(folder=folder, name=name, p=one.base_url, q=other.base_url)

        file = folder / "config.yaml"
        gateway = await stack.enter_async_context(forked(file, text("one"), "--workers", "2"))
        workers = [await connected(gateway, stack, worker) for worker in (0, 1)]
        yield Up(gateway=gateway, workers=tuple(workers), text=text, p=p, q=q, folder=folder)


async def ask(client: httpx.AsyncClient, model: str = "chat") -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return await client.post("/v1/chat/completions", json=body, headers=ADA)


async def said(client: httpx.AsyncClient, model: str = "chat") -> str:
    answer = await ask(client, model)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def change(client: httpx.AsyncClient, how: str, **body: str) -> httpx.Response:
    return await client.post(f"/admin/backends/{how}", json=body, headers=OPERATOR)


async def serves(client: httpx.AsyncClient, wanted: str, model: str = "chat") -> None:
    """Wait until this client's process sends requests there."""
    async with asyncio.timeout(SOON_S):
        while await said(client, model) != wanted:  # noqa: ASYNC110  nothing reports it
            await asyncio.sleep(0.05)


async def test_a_drained_provider_gets_no_request_of_any_process_until_it_is_enabled(
    up: Up,
) -> None:
    first, second = up.workers
    assert [await said(one) for one in up.workers] == ["p", "p"]

    drained = await change(first, "drain", name="p", reason="new account", until="2h")
    assert await said(first) == "q"
    await serves(second, "q")
    before = up.p.asked
    answers = [await ask(client, model) for client in up.workers for model in ("solo", "wild-x")]
    served = [await said(client, model) for client in up.workers for model in ("chat", "safe")]
    during = up.p.asked
    listed = (await second.get("/admin/backends", headers=OPERATOR)).json()
    metrics = (await second.get("/metrics", headers=OPERATOR)).text
    enabled = await change(second, "enable", name="p", reason="it works")
    assert await said(second) == "p"
    await serves(first, "p")

    (hold,) = drained.json()["holds"]
    assert (hold["name"], hold["state"], hold["reason"]) == ("p", "draining", "new account")
    assert 0 < hold["until"] - hold["since"] <= 7200
    assert drained.json()["effects"] == [
        "model 'solo': no backend is left; its requests get 503",
        "model 'safe': no backend is left; its requests go to other",
        "model 'wild-*': no backend is left; its requests get 503",
        "model 'other': its mirror gets no copies",
    ]
    assert served == ["q"] * 4
    assert during - before <= 2  # its health check, which goes on
    for one in answers:
        assert one.status_code == 503
        assert "retry-after" not in one.headers
        error = one.json()["error"]
        assert error["code"] == "unavailable"
        assert "draining since" in error["message"]
        assert "new account" in error["message"]
        assert "strowger backends enable" in error["message"]
    health = listed["models"][0]["backends"][0]["health"]
    assert (health["available"], health["up"], health["available_in_s"]) == (False, False, 0)
    assert (health["held"]["name"], health["held"]["state"]) == ("p", "draining")
    assert 'strowger_backend_held{backend="p/m",model="chat",state="draining"} 1.0' in metrics
    assert 'strowger_backend_available{backend="p/m",model="chat"} 0.0' in metrics
    assert enabled.json() == {"holds": [], "effects": []}


async def test_a_stream_ends_although_its_backend_is_drained(up: Up) -> None:
    client = up.workers[0]
    body = {
        "model": "chat",
        "messages": [{"role": "user", "content": "hold the line"}],
        "stream": True,
    }
    async with client.stream("POST", "/v1/chat/completions", json=body, headers=ADA) as answer:
        await up.p.begun.wait()
        async with up.gateway.client() as other:
            await change(other, "disable", name="p/m")
            await serves(other, "q")
            up.p.release.set()
        text = (await answer.aread()).decode()
    await change(client, "enable", name="p/m")

    assert "first " in text
    assert "last" in text
    assert "[DONE]" in text
    assert "error" not in text


async def test_a_disabled_backend_gets_no_health_check_either(up: Up) -> None:
    client = up.workers[0]
    await change(client, "disable", name="p")
    await serves(up.workers[1], "q")
    await asyncio.sleep(0.3)  # a check may have begun before
    before = up.p.asked
    await asyncio.sleep(2.5)
    during = up.p.asked
    await change(client, "enable", name="p")

    assert during == before


async def test_a_hold_ends_by_itself_and_the_audit_log_says_who_and_why(up: Up) -> None:
    first, second = up.workers
    await change(first, "drain", name="p/m", reason="short", until="2s")
    await serves(second, "q")

    await serves(first, "p")
    await serves(second, "p")

    async with asyncio.timeout(SOON_S):
        while True:
            found = await first.get("/admin/audit", params={"action": "backend"}, headers=OPERATOR)
            rows = [one for one in found.json()["rows"] if one["target"] == "p/m"][:2]
            if len(rows) == 2 and rows[0]["action"] == "backend.enable":
                break
            await asyncio.sleep(0.1)
    ended, drained = rows
    assert (ended["actor_kind"], ended["reason"]) == ("gateway", "its time is over")
    assert (drained["action"], drained["actor_kind"]) == ("backend.drain", "admin_key")
    assert drained["reason"] == "short"
    assert set(drained["facts"]) == {"until"}
    events = (await first.get("/admin/events", headers=OPERATOR)).json()["events"]
    kinds = [(one["kind"], one["backend"], one["message"]) for one in events if not one["model"]]
    assert kinds[:2] == [("enabled", "p/m", "its time is over"), ("draining", "p/m", "short")]


async def test_the_command_and_another_gateway_hold_for_all_and_a_restart_remembers(
    up: Up,
) -> None:
    client, config = up.workers[0], str(up.gateway.config)
    drained = run("backends", "drain", "p", "--reason", "by hand", "--config", config)
    await serves(client, "q")
    listed = json.loads(run("backends", "list", "--json", "--config", config).stdout)

    async with (
        forked(up.folder / "two.yaml", up.text("two")) as other,
        other.client() as elsewhere,
    ):
        # It has started after that, and knows it with its first request.
        assert await said(elsewhere) == "q"
        held = (await elsewhere.get("/admin/holds", headers=OPERATOR)).json()["holds"]
        view = (await elsewhere.get("/admin/view/backends", headers=OPERATOR)).text
        assert (await change(elsewhere, "enable", name="p")).status_code == 200
    await serves(client, "p")
    again = run("backends", "enable", "p", "--config", config)

    assert drained.exit_code == 0
    assert "p is draining since" in drained.stdout
    assert "model 'solo': no backend is left" in drained.stderr
    assert [(one["name"], one["state"], one["held"]) for one in listed] == [
        ("p/m", "draining", "p"),
        ("q/n", "in service", ""),
        ("p/*", "draining", "p"),
    ]
    assert held[0]["by"].startswith("command line")
    assert "by hand" in view
    assert again.exit_code == 1
    assert "'p' is neither drained nor disabled" in again.stderr


async def test_a_reload_keeps_what_is_held(up: Up) -> None:
    client = up.workers[0]
    await change(client, "drain", name="p/m")
    await up.gateway.reload(
        up.text("one").replace("policy: in_order", "policy: in_order\n    aliases: [c]")
    )
    try:
        assert [await said(one, "c") for one in up.workers] == ["q", "q"]
    finally:
        await up.gateway.reload(up.text("one"))
        await change(client, "enable", name="p/m")


@pytest.mark.parametrize(
    ("how", "body", "words"),
    [
        ("drain", {"name": "pp"}, "no provider or backend is named 'pp'; did you mean \"p\"?"),
        ("drain", {"name": "chat"}, "'chat' is a model; name one of its backends (p/m, q/n)"),
        ("drain", {"name": "p", "until": "tomorrow"}, "until: 'tomorrow' is not a time"),
        ("disable", {"name": "p", "until": "2020-01-01"}, "until: '2020-01-01' has passed"),
        ("disable", {"name": "p", "until": "1e15"}, "is more than ten years away"),
        ("disable", {"name": "p", "until": "nan"}, "until: 'nan'"),
        ("enable", {"name": "q"}, "'q' is neither drained nor disabled"),
        ("drain", {"name": "p", "for": "2h"}, "for"),
        ("drain", {"name": "p/m @ 10.0.0.7:8000"}, "'p/m' has no replicas; name it without"),
        ("drain", {"name": "p @ 10.0.0.7:8000"}, "no provider or backend is named"),
        ("drain", {}, "name"),
    ],
)
async def test_a_slip_is_named_and_changes_nothing(
    up: Up, how: str, body: dict[str, str], words: str
) -> None:
    client = up.workers[0]
    refused = await change(client, how, **body)
    held = (await client.get("/admin/holds", headers=OPERATOR)).json()["holds"]

    assert refused.status_code == 400
    assert words in refused.json()["error"]["message"]
    assert held == []


async def test_the_page_drains_and_enables_with_forms_in_the_readers_language(up: Up) -> None:
    client = up.workers[1]
    path, form = "/admin/view/backends", {"name": "p/m", "reason": "<b>bold</b>\0", "until": ""}
    drained = await client.post(f"{path}/drain", data=form, headers=OPERATOR)
    english = (await client.get(path, headers=OPERATOR)).text
    chinese = (await client.get(path, headers={**OPERATOR, "accept-language": "zh-CN"})).text
    live = (await client.get("/admin/live", headers=OPERATOR)).text
    enabled = await client.post(f"{path}/enable", data={"name": "p/m"}, headers=OPERATOR)
    after = (await client.get(path, headers=OPERATOR)).text

    assert (drained.status_code, enabled.status_code) == (303, 303)
    assert "&lt;b&gt;bold&lt;/b&gt;\ufffd" in english
    assert "<b>bold" not in english
    assert 'action="/admin/view/backends/enable"' in english
    assert "排空中" in chinese
    assert '<span class="state warn">draining</span>' in live
    assert "No backend is drained or disabled." in after
