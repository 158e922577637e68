"""Models with their routes, facts and prices, and the form that explains a request."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct

from tests.gateway.cli.command_line import table
from tests.gateway.commanded import OPERATOR, Commanded
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.forked_commands import forked, printed
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

TEXT = """\
server: {{drain_delay_s: 0}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: key-of-ada-1}}]}}
providers:
  - {{name: p, adapter: openai, base_url: "{url}", api_key: k}}
  - {{name: vendor, adapter: openai, base_url: "https://api.openai.com/v1", api_key: k}}
models:
  - name: chat
    aliases: [gpt]
    policy: in_order
    fallback: [small]
    breaker: {{min_requests: 1000}}
    backends: [{{provider: p, model: large}}, {{provider: p, model: odd}}]
    when: [{{tokens_over: 100, backends: [p/odd]}}]
  - {{name: small, backends: [{{provider: p, model: "<b>tiny"}}]}}
  - {{name: public, backends: [{{provider: vendor, model: gpt-4o}}]}}
prices:
  from: catalogue
  rows: [{{match: p/large, input: 2, output: 8, cached_input: 0.5}}]
capabilities: [{{match: p/large, context: 128000, max_output: 4096, tools: true}}]
"""
HELLO = {"model": "gpt", "messages": [{"role": "user", "content": "hi"}]}


class Site(Struct, frozen=True, eq=False):
    up: Commanded
    operator: httpx.AsyncClient
    vendor: Provider

    async def page(self, path: str) -> str:
        answer = await self.operator.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def models(self, **asked: Any) -> list[dict[str, Any]]:
        answer = await self.operator.get("/admin/models", params=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()["models"]


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Site]:
    config: Path = tmp_path_factory.mktemp("models") / "config.yaml"
    async with (
        provider() as vendor,
        forked(config, TEXT.format(url=vendor.base_url), folder=config.parent) as up,
        up.client(**OPERATOR) as operator,
    ):
        yield Site(up, operator, vendor)


async def test_a_model_has_its_route_its_facts_and_its_price(site: Site) -> None:
    chat = (await site.models(search="GPT"))[0]
    backend = chat["backends"][0]

    assert (chat["name"], chat["aliases"], chat["policy"]) == ("chat", ["gpt"], "in_order")
    assert chat["fallback"] == ["small"]
    assert [one["backends"] for one in chat["when"]] == [["p/odd"]]
    assert (backend["name"], backend["context"], backend["max_output"]) == (
        "p/large",
        128000,
        4096,
    )
    assert backend["tools"] is True
    assert backend["price"] == {
        "source": "own",
        "input": 2.0,
        "output": 8.0,
        "cached_input": 0.5,
        "cache_write": None,
        "above": [],
        "where": "prices[0]",
        "since": "",
        "url": "",
        "unknown": "",
    }


async def test_the_source_of_each_price_is_named_and_an_unknown_one_says_why(site: Site) -> None:
    sources = {
        one["name"]: one["price"] for model in await site.models() for one in model["backends"]
    }

    assert sources["vendor/gpt-4o"]["source"] == "catalogue"
    assert sources["vendor/gpt-4o"]["where"]
    assert sources["p/odd"]["source"] == "unknown"
    assert sources["p/odd"]["unknown"]


async def test_page_and_command_show_what_the_api_has(site: Site) -> None:
    shown = await site.page("/admin/view/models")
    status, found, complaint = await printed(
        "models", "--url", site.up.url, "--admin-key", "key-of-the-operator"
    )

    assert status == 0, complaint
    rows = table(found, "MODEL")
    assert [row[:2] for row in rows] == [
        ["chat", "p/large"],
        ["chat", "p/odd"],
        ["small", "p/<b>tiny"],
        ["public", "vendor/gpt-4o"],
    ]
    assert rows[0][4:] == ["128,000", "4,096", "2", "0.5", "8", "prices[0]"]
    text = text_of(shown)
    assert "p/large weight 1 not tried yet 128,000 4,096 tools $2 $0.5 $8 prices[0]" in text
    assert "in order · aliases gpt" in text
    assert "fallback to small" in text
    assert '<span class="tag bad"' in shown
    assert "p/&lt;b&gt;tiny" in shown
    assert "/admin/view/requests?model=chat&amp;since=1h" in shown


async def test_models_are_searched_and_paged(site: Site) -> None:
    second = await site.operator.get("/admin/models?limit=1&offset=1")

    assert [one["name"] for one in second.json()["models"]] == ["small"]
    assert second.json()["total"] == 3
    assert [one["name"] for one in await site.models(search="gpt-4")] == ["public"]
    assert "No model matches." in await site.page("/admin/view/models?search=none")


async def test_an_answer_changes_the_state(site: Site) -> None:
    async with site.up.client(authorization="Bearer key-of-ada-1") as client:
        await client.post("/v1/chat/completions", json=HELLO)

    (model,) = await site.models(search="p/large")
    assert (model["backends"][0]["tried"], model["backends"][0]["state"]) == (True, "healthy")


async def test_the_form_explains_with_the_words_of_the_command(site: Site) -> None:
    body = json.dumps(HELLO)
    sent = {"body": body, "key": "ada", "down": "p/large", "headers": "x-team: search"}

    before = len(site.vendor.requests)
    answer = await site.operator.post("/admin/view/explain", data=sent)
    file = site.up.config.with_name("request.json")
    file.write_text(body)
    options = ("--key", "ada", "--down", "p/large", "--header", "x-team: search")
    status, found, _ = await printed(
        *("explain", str(file), "--url", site.up.url, "--admin-key", "key-of-the-operator"),
        *options,
    )

    assert (answer.status_code, status) == (200, 0)
    assert len(site.vendor.requests) == before
    words = text_of(answer.text)
    for cell in (cell for line in found.splitlines() for cell in line.split("   ") if cell.strip()):
        assert cell.strip() in words
    assert "assumed down p/large" in words
    assert "x-team: search</textarea>" in answer.text


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        ({"body": "{"}, 400, "body"),
        ({"body": json.dumps(HELLO), "key": "eve"}, 400, "eve"),
        ({"body": json.dumps(HELLO), "down": "q"}, 400, "q"),
        ({"body": json.dumps(HELLO), "headers": "no colon"}, 400, "is not NAME: VALUE"),
        ({"body": json.dumps(HELLO), "claims": "[]"}, 400, "laims: "),
    ],
)
async def test_a_form_with_a_fault_says_which_and_keeps_what_was_typed(
    site: Site, sent: dict[str, str], status: int, why: str
) -> None:
    answer = await site.operator.post("/admin/view/explain", data=sent)

    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert why in text_of(answer.text)
    assert "<textarea" in answer.text


async def test_a_request_that_would_be_rejected_says_with_what(site: Site) -> None:
    body = json.dumps({**HELLO, "model": "none"})

    answer = await site.operator.post("/admin/view/explain", data={"body": body})

    assert answer.status_code == 200
    assert "ejected with 404 model_not_found" in text_of(answer.text)


async def test_an_empty_form_has_an_example_and_the_views_are_closed_to_clients(site: Site) -> None:
    page = await site.page("/admin/view/explain")
    async with site.up.client(authorization="Bearer key-of-ada-1") as client:
        answers = [
            await client.get("/admin/models"),
            await client.post("/admin/view/explain", data={"body": "{}"}),
        ]

    assert "&#34;model&#34;" in page
    assert [one.status_code for one in answers] == [401, 303]
