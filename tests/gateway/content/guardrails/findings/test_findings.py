"""Findings of guardrails: counted by rule and time, listed with their requests, without content."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.gateway.content.guardrails.findings.column import (
    RuleFinding,
    findings_in,
    record_findings,
)
from strowger_gateway.gateway.content.guardrails.findings.rows import requests_with_findings
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import Attribute, RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import table
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.forked_commands import forked, printed
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

TEXT = """\
server: {{drain_delay_s: 0, workers: 2}}
store: {{url: "sqlite:///{folder}/store.db", spool: "{folder}/spool"}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: key-of-ada-1}}]}}
providers: [{{name: p, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: p, model: large}}]}}]
guardrails:
  - name: words
    use: patterns
    mode: block
    where: input
    settings: {{patterns: [{{name: project, regex: xanadu}}]}}
  - name: names
    use: patterns
    mode: mask
    where: input
    settings: {{patterns: [{{name: person, regex: kubla}}]}}
"""


class Site(Struct, frozen=True, eq=False):
    up: Commanded
    operator: httpx.AsyncClient

    async def findings(self, **asked: Any) -> dict[str, Any]:
        answer = await self.operator.get("/admin/guardrails", params=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Site]:
    folder: Path = tmp_path_factory.mktemp("findings")
    async with (
        provider() as vendor,
        forked(
            folder / "config.yaml", TEXT.format(url=vendor.base_url, folder=folder), folder=folder
        ) as up,
        up.client(**OPERATOR) as operator,
        up.client(authorization="Bearer key-of-ada-1") as client,
    ):
        for text in ("build xanadu", "ask kubla", "ask kubla khan", "hello"):
            body = {"model": "chat", "messages": [{"role": "user", "content": text}]}
            await client.post("/v1/chat/completions", json=body)
        one = Site(up, operator)
        async with asyncio.timeout(SOON_S):
            while (await one.findings())["total"] < 3:  # noqa: ASYNC110  rows arrive unannounced
                await asyncio.sleep(0.1)
        yield one


async def test_rules_are_counted_and_requests_listed_without_content(site: Site) -> None:
    found = await site.findings()

    assert [(one["guardrail"], one["action"], one["requests"]) for one in found["rules"]] == [
        ("names", "mask", 2),
        ("words", "block", 1),
    ]
    assert [one["requests"] for one in found["steps"]][-1] == found["total"] == 3
    newest = found["requests"][0]
    assert (newest["model"], newest["key"], newest["status"]) == ("chat", "ada", 200)
    assert [(one["guardrail"], one["action"]) for one in newest["findings"]] == [("names", "mask")]
    assert "xanadu" not in json.dumps(found)
    assert "kubla" not in json.dumps(found)


async def test_page_and_command_show_the_same_and_link_the_requests(site: Site) -> None:
    found = await site.findings()
    page = (await site.operator.get("/admin/view/guardrails")).text
    status, told, complaint = await printed(
        "guardrails", "--url", site.up.url, "--admin-key", "key-of-the-operator"
    )

    assert status == 0, complaint
    rows = table(told, "GUARDRAIL")
    assert [row[:4:2] for row in rows] == [["names", "mask"], ["words", "block"]]
    for one in found["requests"]:
        assert f"/admin/view/requests?id={one['id']}" in page
        assert one["id"] in told
    assert "names" in text_of(page)
    assert "kubla" not in page + told


async def test_findings_are_filtered(site: Site) -> None:
    by_rail = await site.findings(guardrail="words")
    by_action = await site.findings(action="mask")
    others = [
        (await site.findings(**asked))["total"]
        for asked in ({"model": "other"}, {"key": "eve"}, {"team": "x"}, {"until": "1h"})
    ]

    assert (by_rail["total"], by_action["total"]) == (1, 2)
    assert others == [0, 0, 0, 0]


async def test_a_wrong_time_is_refused_by_name(site: Site) -> None:
    for asked, param in (({"since": "soon"}, "since"), ({"since": "1h", "until": "2h"}, "until")):
        answer = await site.operator.get("/admin/guardrails", params=asked)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_the_log_has_what_the_store_has(site: Site) -> None:
    logged = [one for one in site.up.access if one.get("attributes")]

    assert {json.dumps(one["attributes"]) for one in logged} == {
        json.dumps({"guardrails": "words/project:block"}),
        json.dumps({"guardrails": "names/person:mask"}),
    }


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SqlStore]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    found = open_store(Secret(url))
    found.prepare()
    yield found
    found.close()


def test_only_requests_with_findings_in_the_span_are_read(store: SqlStore) -> None:
    now = time.time()
    attributes: list[tuple[str, float, dict[str, Attribute] | None]] = [
        ("old", now - 500, {"guardrails": "a/b:mask"}),
        ("none", now - 50, None),
        ("other", now - 50, {"prompt": 'about "guardrails":"x"'}),
        ("first", now - 60, {"guardrails": "a/b:mask; c/d:block", "prompt": "p@1"}),
        ("second", now - 40, {"guardrails": "a/b:mask"}),
    ]
    rows = [
        RequestRow(
            time=at, request_id=name, surface="openai", status=200, ms=1.0, attributes=values
        )
        for name, at, values in attributes
    ]
    store.import_rows("spool", 0, 1, rows)

    found = requests_with_findings(store.database, now - 100, now)

    assert [one.id for one in found.requests] == ["second", "first"]
    assert found.requests[1].found == "a/b:mask; c/d:block"
    assert found.complete


class Record:
    def __init__(self) -> None:
        self.values: dict[str, Attribute] = {}

    def set_attribute(self, name: str, value: Attribute) -> None:
        self.values[name] = value


NAMES = st.from_regex(r"[a-zA-Z0-9_.: -]{1,40}", fullmatch=True)
FINDINGS = st.builds(
    RuleFinding,
    st.from_regex(r"[a-z-]{1,20}", fullmatch=True),
    NAMES,
    st.sampled_from(["mask", "block", "monitor", "failed"]),
)


@given(st.lists(FINDINGS, min_size=1, max_size=30, unique=True))
def test_what_is_recorded_is_read_again_as_far_as_it_fits(found: list[RuleFinding]) -> None:
    record = Record()

    record_findings(record, [f"{one.guardrail}/{one.rule}:{one.action}" for one in found])
    read = list(findings_in(str(record.values["guardrails"])))

    assert read == found[: len(read)]
    assert len(read) == len(found) or len(str(record.values["guardrails"])) == 500
