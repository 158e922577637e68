"""`GET /admin/usage` on the wire, with what keys of both kinds and mirrors have used."""

from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from jsonschema import Draft202012Validator

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.governance.issued_keys.keys_in_effect import IssuedKeys
from strowger_gateway.gateway.governance.issued_keys.secret import digest_of
from strowger_gateway.gateway.governance.usage.report import DIMENSIONS
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeyList, KeySecret
from tests.gateway.experiments.recorded_gateway import BEARER, recorded
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_one_period")]

CONFIG = """
providers: [{{name: a, adapter: openai, base_url: {url}, api_key: k}}]
prices: [{{match: a/*, input: 1, output: 10}}, {{match: a/dear, input: 100, output: 1000}}]
models:
  - name: chat
    backends: [{{provider: a, model: good}}]
    mirror: {{backend: a/dear, share: 1}}
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{{name: web, key: key-of-the-web, team: blue, tags: [prod, cc-1]}}]
teams: [{{name: blue}}, {{name: red}}]
"""
ISSUED = "sk-strw-of-ann"
ANSWER, COPY = 7 * 1_000 + 3 * 10_000, 7 * 100_000 + 3 * 1_000_000
"""10⁻⁹ US dollars of one answer, and of its copy."""


def issue(issued: IssuedKeys) -> None:
    secret = KeySecret(digest=digest_of(ISSUED), last4="-ann", created=0.0)
    key = IssuedKey(name="ann", team="red", user="ann@x", tags=("prod",), secrets=(secret,))
    issued.push(KeyList(version=1, keys=(key,)))


async def test_usage_by_key_team_user_and_tag_has_what_each_has_used(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        recorded(CONFIG.format(url=remote.base_url), tmp_path) as up,
        httpx.AsyncClient(base_url=up.running.url, timeout=60) as client,
    ):
        issue(up.running.state.runtime.access.issued)
        for key in ("key-of-the-web", "key-of-the-web", ISSUED):
            answer = await client.post(
                "/v1/chat/completions",
                headers={"authorization": f"Bearer {key}"},
                json={"model": "chat", "messages": [{"role": "user", "content": "hi"}]},
            )
            assert answer.status_code == 200, answer.text
        await up.running.state.side(MirrorsSide).copies.wait_idle()
        up.settle()

        async def rows(**asked: str) -> list[dict[str, object]]:
            answer = await client.get("/admin/usage", headers=BEARER, params=asked)
            assert answer.status_code == 200, answer.text
            assert answer.headers["cache-control"] == "no-store"
            return answer.json()["rows"]

        by_payer = await rows(by="key,team,user,tags")
        by_tag = await rows(by="tag")
        by_role = await rows(by="model,backend,role", team="red")
        whole = (await client.get("/admin/usage", headers=BEARER)).json()
        as_csv = await client.get("/admin/usage?by=team&format=csv&days=1", headers=BEARER)
        wrong = await client.get("/admin/usage?by=teem", headers=BEARER)
        closed = await client.get("/admin/usage")

    assert [
        (row["key"], row["team"], row["user"], row["tags"], row["requests"], row["attempts"])
        for row in by_payer
    ] == [("ann", "red", "ann@x", ["prod"], 1, 2), ("web", "blue", "", ["cc-1", "prod"], 2, 4)]
    assert [(row["served_nano_usd"], row["cost_nano_usd"]) for row in by_payer] == [
        (ANSWER, ANSWER + COPY),
        (2 * ANSWER, 2 * (ANSWER + COPY)),
    ]
    assert [(row["tag"], row["requests"]) for row in by_tag] == [("cc-1", 2), ("prod", 3)]
    assert [(row["model"], row["backend"], row["role"]) for row in by_role] == [
        ("chat", "a/dear", "mirror"),
        ("chat", "a/good", "served"),
    ]
    assert whole["by"] == ["day", "key", "model", "backend"]
    assert whole["total"]["requests"] == 3
    assert whole["rows"][0]["day"] == datetime.now(UTC).date().isoformat()
    assert as_csv.headers["content-type"].startswith("text/csv")
    assert [line.split(",")[:2] for line in as_csv.text.splitlines()] == [
        ["team", "requests"],
        ["blue", "2"],
        ["red", "1"],
    ]
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "by")
    assert closed.status_code == 401


async def test_without_a_store_usage_is_unavailable(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", "auth: {admin_key: key-of-the-operator}")
    async with serving(config, tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=BEARER, timeout=60) as client:
            answer = await client.get("/admin/usage")

    assert answer.status_code == 503
    assert "read from the store" in answer.json()["error"]["message"]


async def test_the_api_description_has_the_report(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", "auth: {admin_key: key-of-the-operator}")
    async with serving(config, tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
            described = (await client.get("/openapi.json")).json()

    asked = described["paths"]["/admin/usage"]["get"]
    assert {"by", "from", "to", "days", "month", "time_zone", "format", "team", "tag"} <= {
        one["name"] for one in asked["parameters"]
    }
    schema = asked["responses"]["200"]["content"]["application/json"]["schema"]
    Draft202012Validator.check_schema({**schema, "components": described["components"]})
    row = described["components"]["schemas"]["UsageRow"]["properties"]
    assert set(DIMENSIONS) <= set(row)
