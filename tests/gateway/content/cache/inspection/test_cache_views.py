"""The response cache for operators: hits, what they save, and clearing it, over two workers."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct

from tests.gateway.cli.command_line import table
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.forked_commands import forked, printed
from tests.stand_ins.provider import Provider, provider
from tests.stand_ins.redis_server import running_redis

pytestmark = pytest.mark.anyio

TEXT = """\
server: {{drain_delay_s: 0, workers: 2}}
store: {{url: "sqlite:///{folder}/store.db", spool: "{folder}/spool"{redis}}}
cache: {{store: {store}, max_bytes: 1MiB}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: key-of-ada-1}}]}}
providers: [{{name: p, adapter: openai, base_url: "{url}", api_key: k}}]
models:
  - {{name: chat, backends: [{{provider: p, model: large}}]}}
  - {{name: "chat:b*", backends: [{{provider: p, model: odd}}]}}
prices: [{{match: p/large, input: 2, output: 8}}]
"""
ADMIN = ("--admin-key", "key-of-the-operator")


class Site(Struct, frozen=True, eq=False):
    up: Commanded
    operator: httpx.AsyncClient
    client: httpx.AsyncClient
    vendor: Provider
    store: str

    async def ask(self, text: str, model: str = "chat") -> str:
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        answer = await self.client.post(
            "/v1/chat/completions", json=body, headers={"x-gateway-cache": "on"}
        )
        assert answer.status_code == 200, answer.text
        return answer.headers["x-gateway-cache"]

    async def view(self) -> dict[str, Any]:
        answer = await self.operator.get("/admin/cache")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def model(self, name: str) -> dict[str, Any]:
        found = [one for one in (await self.view())["models"] if one["model"] == name]
        return found[0] if found else {"entries": 0, "hits": 0}

    async def clear(self, **body: str) -> httpx.Response:
        return await self.operator.post("/admin/cache/clear", json=body)

    async def fill(self) -> None:
        """Keep two answers of one model and one of the other, in whichever worker."""
        assert (await self.clear()).status_code == 200
        for text, model in (("a", "chat"), ("b", "chat"), ("c", "chat:bx")):
            await self.ask(text, model)
        async with asyncio.timeout(SOON_S):
            while (await self.view())["entries"] < 3:  # noqa: ASYNC110  kept in the background
                await asyncio.sleep(0.02)


@pytest.fixture(scope="module", params=["memory", "redis"])
async def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Site]:
    folder: Path = tmp_path_factory.mktemp("cache")
    with running_redis() as server:
        redis = f", redis_url: '{server.url}'" if request.param == "redis" else ""
        async with (
            provider() as vendor,
            forked(
                folder / "config.yaml",
                TEXT.format(url=vendor.base_url, folder=folder, redis=redis, store=request.param),
                folder=folder,
            ) as up,
            up.client(**OPERATOR) as operator,
            up.client(authorization="Bearer key-of-ada-1") as client,
        ):
            one = Site(up, operator, client, vendor, str(request.param))
            async with asyncio.timeout(SOON_S):
                while await one.ask("first") == "bypass":  # noqa: ASYNC110  until Redis is connected
                    await asyncio.sleep(0.02)
            yield one


async def test_hits_are_counted_with_what_they_have_saved(site: Site) -> None:
    await site.fill()
    while await site.ask("a") != "hit":
        pass  # another worker has no answer in memory yet
    async with asyncio.timeout(SOON_S):
        while not (await site.model("chat"))["hits"]:  # noqa: ASYNC110  rows arrive unannounced
            await asyncio.sleep(0.1)
    found, view = await site.model("chat"), await site.view()

    assert view["where"] == site.store
    assert view["recorded"] is True
    tokens = found["saved_prompt_tokens"], found["saved_completion_tokens"]
    assert all(tokens)
    assert found["saved_usd"] == pytest.approx((tokens[0] * 2 + tokens[1] * 8) / 1e6)
    assert found["hit_rate"] == pytest.approx(found["hits"] / (found["hits"] + found["misses"]))
    assert found["entries"] >= 2


async def test_the_answers_of_one_model_are_forgotten_and_no_others(site: Site) -> None:
    await site.fill()
    kept = (await site.model("chat"))["entries"]

    cleared = await site.clear(model="chat")
    left = await site.view()
    again = await site.ask("b")

    assert cleared.json() == {"entries": kept, "complete": True}
    assert {one["model"]: one["entries"] for one in left["models"] if one["entries"]} == {
        "chat:b*": 1
    }
    assert again == "miss"


async def test_a_wildcard_in_a_name_matches_no_other_model(site: Site) -> None:
    await site.fill()

    cleared = await site.clear(model="chat:b*")

    assert cleared.json()["entries"] == 1
    assert (await site.model("chat"))["entries"] >= 2


async def test_clearing_is_audited_and_only_admins_may(site: Site) -> None:
    await site.fill()
    await site.clear()
    unknown = await site.clear(model="chatt")
    as_client = await site.client.post("/admin/cache/clear", json={})
    async with asyncio.timeout(SOON_S):
        while True:
            rows = (await site.operator.get("/admin/audit?action=admin.change")).json()["rows"]
            if any(one["facts"].get("model") == "all" for one in rows):
                break
            await asyncio.sleep(0.1)

    assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "model")
    assert 'did you mean "chat"' in unknown.json()["error"]["message"]
    assert as_client.status_code == 401
    assert rows[0]["target"] == "/admin/cache/clear"
    assert int(rows[0]["facts"]["entries"]) >= 0


async def test_page_and_command_show_and_clear_the_same(site: Site) -> None:
    await site.fill()
    page = text_of((await site.operator.get("/admin/view/cache")).text)
    shown = await printed("cache", "show", "--url", site.up.url, *ADMIN)
    cleared = await printed("cache", "clear", "--all", "--url", site.up.url, *ADMIN)
    neither = await printed("cache", "clear", "--url", site.up.url, *ADMIN)

    assert shown[0] == cleared[0] == 0, shown[2] + cleared[2]
    rows = {row[0]: row for row in table(shown[1], "MODEL")}
    assert rows.keys() == {"chat", "chat:b*"}
    assert rows["chat:b*"][-1] == "1"
    assert "Answers kept" in page
    whose = "in all gateways" if site.store == "redis" else "in this gateway; others keep theirs"
    assert f"Forget them {whose}." in page
    assert "chat:b*" in page
    assert cleared[1].endswith("answers are forgotten\n")
    assert int(cleared[1].split()[0]) >= 3
    assert (await site.view())["entries"] == 0
    assert neither[0] == 2


async def test_a_form_of_the_page_clears(site: Site) -> None:
    await site.fill()
    answer = await site.operator.post("/admin/view/cache/clear", data={"model": "chat"})

    assert answer.headers["location"] == "/admin/view/cache"
    assert (await site.model("chat"))["entries"] == 0
    assert (await site.model("chat:b*"))["entries"] == 1


async def test_a_gateway_without_a_cache_says_so(tmp_path: Path) -> None:
    text = TEXT.format(url="http://127.0.0.1:9", folder=tmp_path, redis="", store="memory")
    text = text.replace("cache: {store: memory, max_bytes: 1MiB}\n", "").replace("2}", "1}")
    async with forked(tmp_path / "config.yaml", text) as up, up.client(**OPERATOR) as operator:
        found = (await operator.get("/admin/cache")).json()
        page = (await operator.get("/admin/view/cache")).text

    assert (found["where"], found["entries"], found["models"]) == ("off", 0, [])
    assert "the configuration has no cache" in page
