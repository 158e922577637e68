"""Two gateways over one PostgreSQL, each with requests of its own, of two teams."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import Answer, Received, answers, provider

ADMIN = "key-of-the-operator"
BEARER = {"authorization": f"Bearer {ADMIN}"}
KEYS = {"red": "key-of-red-00000000", "blue": "key-of-blue-0000000"}
CONFIG = """
server: {{drain_delay_s: 0}}
store: {{url: "{store}", spool: {spool}}}
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys:
    - {{name: red-app, key: key-of-red-00000000, team: red}}
    - {{name: blue-app, key: key-of-blue-0000000, team: blue}}
teams: [{{name: red}}, {{name: blue}}]
logging: {{payloads: {{mode: errors, to: store}}}}
providers: [{{name: p, adapter: vllm, base_url: "{url}"}}]
prices:
  - {{match: p/good, input: 1000000, output: 1000000}}
models:
  - name: chat
    aliases: [talk]
    policy: in_order
    retry: {{attempts: 2, backoff_s: 0}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: p, model: flaky}}, {{provider: p, model: good}}]
  - name: broken
    retry: {{attempts: 1}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: p, model: bad}}]
  - {{name: cut, backends: [{{provider: p, model: cut}}]}}
"""
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


async def behave(request: Received, answer: Answer) -> None:
    if request.json["model"] in ("bad", "flaky"):
        await answer.json({"error": {"message": "out of order"}}, 500)
    elif request.json["model"] == "cut":
        await answer.begin_stream()
        await answer.text("It begins well")
        answer.close()
    else:
        await answers(request, answer)


class Two(Struct, frozen=True, kw_only=True):
    one: Commanded
    two: Commanded
    config: Path

    async def ask(
        self, up: Commanded, team: str, model: str = "chat", **headers: str
    ) -> httpx.Response:
        given = {"authorization": f"Bearer {KEYS[team]}", **headers}
        async with up.client(**given) as client:
            return await client.post("/v1/chat/completions", json={"model": model, **HELLO})


async def admin(up: Commanded, path: str, **query: str) -> httpx.Response:
    async with up.client(**BEARER) as client:
        return await client.get(f"/admin{path}", params=query)


async def listed(up: Commanded, **query: str) -> dict[str, Any]:
    answer = await admin(up, "/requests", **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def recorded(up: Commanded, ids: Mapping[str, str]) -> None:
    """Wait until the other gateways see these requests."""
    async with asyncio.timeout(SOON_S):
        for request_id in ids.values():
            # It is imported within two seconds, which nothing reports.
            while (await admin(up, f"/requests/{request_id}")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@asynccontextmanager
async def two_gateways(postgres: Postgres, folder: Path) -> AsyncGenerator[Two]:
    database = postgres.new_database()
    async with provider(behave) as remote:

        def config(name: str) -> str:
            return CONFIG.format(store=database, spool=folder / name, url=remote.base_url)

        one_file, two_file = folder / "one.yaml", folder / "two.yaml"
        async with forked(one_file, config("one")) as one, forked(two_file, config("two")) as two:
            yield Two(one=one, two=two, config=one_file)
