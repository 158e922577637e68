"""`/admin/explain` and `strowger explain --url` give the same result for a running gateway."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.console.explain.explanation import Explanation
from tests.gateway.cli.command_line import run
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

KEY = "key-of-the-operator"
BEARER = {"authorization": f"Bearer {KEY}"}
BODY = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}
MODELS = """
auth: {admin_key: key-of-the-operator}
models:
  - name: chat
    policy: in_order
    retry: {attempts: 3, backoff_s: 0.01}
    breaker: {min_requests: 1, cooldown_s: 60}
    backends: [{provider: a, model: m}, {provider: b, model: m}]
    when: [{header: {x-tier: premium}, backends: [b/best]}]
  - name: idle
    policy: least_busy
    backends: [{provider: a, model: i}, {provider: b, model: i}]
"""


async def fails(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "out of order"}}, 500)


@pytest.fixture(scope="module")
async def a() -> AsyncGenerator[Provider]:
    async with provider() as one:
        yield one


@pytest.fixture(scope="module")
async def up(a: Provider, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving]:
    async with provider() as b:
        config = f"""
providers:
  - {{name: a, adapter: openai, base_url: "{a.base_url}", api_key: k}}
  - {{name: b, adapter: openai, base_url: "{b.base_url}", api_key: k}}
{MODELS}"""
        async with serving(config, tmp_path_factory.mktemp("run")) as one:
            yield one


@pytest.fixture(scope="module")
async def client(up: Serving) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=up.url, headers=BEARER, timeout=60) as one:
        yield one


async def explained(client: httpx.AsyncClient, query: str = "", **headers: str) -> Explanation:
    answer = await client.post(f"/admin/explain{query}", json=BODY, headers=headers)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=Explanation)


async def test_the_operators_question_is_answered_and_nothing_is_sent(
    client: httpx.AsyncClient, a: Provider
) -> None:
    found = await explained(client)

    assert [one.backend for one in found.candidates] == ["a/m", "b/m"]
    assert a.requests == []


async def test_headers_of_the_question_count_as_the_clients(client: httpx.AsyncClient) -> None:
    found = await explained(client, **{"x-tier": "premium"})

    assert (found.rule, [one.backend for one in found.candidates]) == (0, ["b/best"])


async def test_assuming_an_outage_makes_none(client: httpx.AsyncClient, a: Provider) -> None:
    found = await explained(client, "?down=a")
    after = await client.post("/v1/chat/completions", json=BODY)

    assert [one.backend for one in found.candidates] == ["b/m"]
    assert after.headers["x-gateway-backend"] == "a/m"
    a.requests.clear()


async def test_the_command_gets_the_same_answer_by_url(
    client: httpx.AsyncClient, up: Serving, tmp_path: Path
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(BODY))
    words = ("explain", str(file), "--url", up.url, "--header", "x-tier: premium", "--down", "a")

    result = await asyncio.to_thread(run, *words, "--json", "--admin-key", KEY)
    found = await explained(client, "?down=a", **{"x-tier": "premium"})

    told = msgspec.json.decode(result.stdout, type=Explanation)
    assert told.candidates[0].backend == "b/best"
    assert (told.rules, told.down) == (found.rules, found.down)


@pytest.mark.parametrize(
    ("query", "param"),
    [("?down=c", "down"), ("?dwn=a", "dwn"), ("?key=nobody", "key"), ("?path=/v1/x", None)],
)
async def test_a_question_about_what_is_not_there_is_the_operators_error(
    client: httpx.AsyncClient, query: str, param: str | None
) -> None:
    answer = await client.post(f"/admin/explain{query}", json=BODY)

    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["param"] == param


async def test_only_the_operator_may_call_it(up: Serving) -> None:
    async with httpx.AsyncClient(base_url=up.url, timeout=60) as anybody:
        answer = await anybody.post("/admin/explain", json=BODY)

    assert answer.status_code == 401


async def test_a_wrong_key_and_a_silent_port_are_reported_in_one_line(
    up: Serving, tmp_path: Path
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(BODY))

    refused = await asyncio.to_thread(run, "explain", str(file), "--url", up.url)
    nobody = await asyncio.to_thread(run, "explain", str(file), "--url", "http://127.0.0.1:9")

    assert (refused.exit_code, nobody.exit_code) == (1, 1)
    assert "401: /admin requires the operator's key" in refused.stderr
    assert nobody.stderr.startswith("cannot connect to http://127.0.0.1:9; start the gateway")


async def test_a_backend_that_has_just_failed_is_ruled_out_by_its_breaker(
    client: httpx.AsyncClient, a: Provider
) -> None:
    a.behaviour = fails
    await client.post("/v1/chat/completions", json=BODY)

    found = await explained(client)

    assert [one.backend for one in found.candidates] == ["b/m"]
    (reason,) = [one.reasons for one in found.ruled_out if one.backend == "a/m"]
    assert reason[0].words.startswith("circuit open, probe in ")


async def test_the_question_and_its_answer_are_documented(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    route = document["paths"]["/admin/explain"]["post"]
    assert {one["name"] for one in route["parameters"]} == {
        "path",
        "model",
        "key",
        "claims",
        "down",
    }
    assert "200" in route["responses"]
