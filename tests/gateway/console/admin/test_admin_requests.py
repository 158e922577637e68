"""/admin/backends and /admin/requests: health of backends, and outcomes of recent requests."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import msgspec
import pytest

from strowger_gateway.gateway.console.admin.backends import ModelList
from strowger_gateway.gateway.console.admin.request_log.listing import RequestList
from strowger_gateway.gateway.console.admin.request_log.views import RequestView
from tests.gateway.cli.command_line import run, table
from tests.gateway.experiments import recorded_gateway
from tests.gateway.experiments.recorded_gateway import Recorded, recorded
from tests.gateway.experiments.recorded_gateway import behave as answering
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

KEY = "key-of-the-operator"
BEARER = {"authorization": f"Bearer {KEY}"}
MODELS = """
auth: {admin_key: key-of-the-operator}
models:
  - name: chat
    aliases: [talk]
    policy: in_order
    retry: {attempts: 3, backoff_s: 0}
    breaker: {min_requests: 2, cooldown_s: 60}
    backends: [{provider: p, model: bad}, {provider: p, model: good}]
    fallback: [other]
    fallback_by_error: [{codes: [content_filter], models: [other]}]
    when: [{header: {x-tier: premium}, backends: [p/best]}]
  - {name: other, backends: [{provider: p, model: other}]}
  - {name: gone, breaker: {min_requests: 1}, retry: {attempts: 1},
      backends: [{provider: p, model: bad}]}
  - name: tried
    backends: [{provider: p, model: other}]
    mirror: {backend: p/copied, share: 0.05}
experiments:
  - name: trial
    model: tried
    primary: thumbs_up
    variants:
      - {name: control, backend: p/other, weight: 95}
      - {name: treatment, backend: p/new, weight: 5}
"""


async def behave(request: Received, answer: Answer) -> None:
    if request.json["model"] == "bad":
        await answer.json({"error": {"message": "out of order"}}, 500)
        return
    await answer.chat("the answer's own words")


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving]:
    async with provider(behave) as p:
        config = f"""
providers: [{{name: p, adapter: vllm, base_url: "{p.base_url}"}}]
{MODELS}"""
        async with serving(config, tmp_path_factory.mktemp("run")) as one:
            yield one


@pytest.fixture(scope="module")
async def client(up: Serving) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=up.url, headers=BEARER, timeout=60) as one:
        yield one


async def chat(client: httpx.AsyncClient, model: str = "chat", **headers: str) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "the client's own words"}]}
    return await client.post("/v1/chat/completions", json=body, headers=headers)


async def seen(client: httpx.AsyncClient, request_id: str) -> RequestView:
    answer = await client.get(f"/admin/requests/{request_id}")
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=RequestView)


async def test_a_past_request_has_its_attempts_and_their_reasons(
    client: httpx.AsyncClient,
) -> None:
    answer = await chat(client, "talk")

    past = await seen(client, answer.headers["x-gateway-request-id"])
    assert (past.status, past.route, past.backend) == (200, "chat", "p/good")
    assert past.candidates == ("p/bad", "p/good", "p/other")
    assert [one.backend for one in past.attempts][-1] == "p/good"
    assert past.attempts[0].outcome == "upstream_failed"
    assert past.attempts[0].ms > 0
    assert (past.prompt_tokens, past.usage_source) == (7, "reported")


async def test_it_shows_its_rule_and_the_dropped_fields(client: httpx.AsyncClient) -> None:
    answer = await chat(client, **{"x-tier": "premium", "x-request-id": "the-clients-own"})

    past = await seen(client, "the-clients-own")
    assert past.request_id == answer.headers["x-gateway-request-id"]
    assert (past.rule, past.backend) == (0, "p/best")


async def test_it_shows_backends_ruled_out_and_requests_without_a_backend(
    client: httpx.AsyncClient,
) -> None:
    await chat(client, "gone")
    nobody = await chat(client, "no-such-model")
    await chat(client)
    after = await chat(client)

    unknown = await seen(client, nobody.headers["x-gateway-request-id"])
    past = await seen(client, after.headers["x-gateway-request-id"])
    assert (unknown.attempts, unknown.status) == ([], 404)
    assert unknown.refused.startswith("model 'no-such-model' not found")
    assert past.candidates == ("p/good", "p/other")
    assert [(one.backend, one.reason) for one in past.ruled_out] == [("p/bad", "breaker open")]


async def test_the_last_come_first_and_only_so_many(client: httpx.AsyncClient) -> None:
    ids = [(await chat(client, "other")).headers["x-gateway-request-id"] for _ in range(3)]

    answer = await client.get("/admin/requests", params={"limit": 2})

    found = msgspec.json.decode(answer.content, type=RequestList).requests
    assert [one.request_id for one in found] == [ids[2], ids[1]]


async def test_no_prompts_or_answers_are_kept(client: httpx.AsyncClient) -> None:
    await chat(client)

    answer = await client.get("/admin/requests")

    assert "own words" not in answer.text


async def test_an_unknown_request_and_a_stranger_get_nothing(
    client: httpx.AsyncClient, up: Serving
) -> None:
    unknown = await client.get("/admin/requests/none")
    async with httpx.AsyncClient(base_url=up.url, timeout=60) as stranger:
        refused = [
            await stranger.get(path)
            for path in ("/admin/requests", "/admin/requests/none", "/admin/backends")
        ]

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_request")
    assert [one.status_code for one in refused] == [401, 401, 401]


async def test_backends_show_their_health_by_model(client: httpx.AsyncClient) -> None:
    await chat(client)
    await chat(client)

    answer = await client.get("/admin/backends")
    metrics = (await client.get("/metrics")).text

    assert 'strowger_backend_available{backend="p/bad",model="chat"} 0.0' in metrics
    assert 'strowger_backend_available{backend="p/good",model="chat"} 1.0' in metrics
    models = {one.name: one for one in msgspec.json.decode(answer.content, type=ModelList).models}
    bad, good, best = models["chat"].backends
    assert (bad.name, good.name, best.name) == ("p/bad", "p/good", "p/best")
    assert (bad.health.available, bad.health.breaker) == (False, "open")
    assert 0 < bad.health.available_in_s <= 60
    assert (good.health.available, good.health.in_flight) == (True, 0)
    assert good.health.latency_s is not None
    assert best.weight is None
    assert models["chat"].when[0].when == "header x-tier: premium"
    assert models["chat"].fallback_by_error[0].models == ("other",)


async def test_an_experiments_backends_are_listed_like_any_others(
    client: httpx.AsyncClient, up: Serving
) -> None:
    answer = await client.get("/admin/backends")
    result = await asyncio.to_thread(run, "routes", "--url", up.url, "--admin-key", KEY)
    page = (await client.get("/admin/live")).text

    models = {one.name: one for one in msgspec.json.decode(answer.content, type=ModelList).models}
    control, treatment = models["tried"].backends
    assert (control.name, control.weight, control.variants) == ("p/other", 1, ("control",))
    assert (treatment.name, treatment.weight, treatment.variants) == ("p/new", None, ("treatment",))
    assert treatment.health.available
    assert ["p/new", "by an experiment", "not tried yet"] in [
        row[:3] for row in table(result.stdout, "MODEL")
    ]
    targets = table(result.stdout.partition("\n\n")[2], "MODEL")
    assert ["tried", "in trial: treatment, 5 %", "p/new"] in targets
    assert "experiment trial · copies of 5 % to p/copied" in page
    assert "by experiment" in page


async def test_the_command_shows_the_health_of_a_running_gateway(
    client: httpx.AsyncClient, up: Serving
) -> None:
    await chat(client)
    await chat(client)

    result = await asyncio.to_thread(run, "routes", "--url", up.url, "--admin-key", KEY)

    rows = table(result.stdout, "MODEL")
    assert rows[0][:4] == ["chat", "in_order", "p/bad", "first"]
    assert rows[0][4].startswith("circuit open, probe in ")
    assert rows[1][:3] == ["p/good", "then", "healthy"]
    assert rows[2][:2] == ["p/best", "by a rule"]
    assert "when header x-tier: premium" in result.stdout
    assert "after content_filter" in result.stdout


async def test_the_page_counts_no_failure_as_an_answer(client: httpx.AsyncClient) -> None:
    assert (await chat(client, "gone")).status_code == 502

    page = (await client.get("/admin/live")).text

    gone = page.partition("gone</a></h3>")[2].partition("</table>")[0]
    assert re.findall(r'data-label="Answered" class="n"><a href="([^"]*)">([^<]*)', gone) == [
        ("/admin/view/requests?model=gone&amp;backend=p%2Fbad&amp;since=5m", "0")
    ]
    assert "(100 %)" in gone


def test_the_error_for_an_address_without_a_gateway_names_the_option() -> None:
    result = run("routes", "--url", "localhost:8080")

    assert result.exit_code == 2
    assert "--url: the URL must begin with http:// or https://" in result.stderr


async def test_a_server_that_is_not_a_gateway_is_reported() -> None:
    async def other(request: Received, answer: Answer) -> None:
        await answer.json({"models": 3})

    async def hello(request: Received, answer: Answer) -> None:
        await answer.body(b"<html>", "text/html", 404)

    told: list[str] = []
    for behaviour in (other, hello):
        async with provider(behaviour) as server:
            result = await asyncio.to_thread(run, "routes", "--url", server.origin)
            told.append(result.stderr)

    assert "is not a Strowger gateway of this version" in told[0]
    assert "status 404 without a readable error message" in told[1]


async def test_the_answers_are_documented(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    schemas = document["components"]["schemas"]
    for path in ("/admin/backends", "/admin/requests", "/admin/requests/{request_id}"):
        answer = document["paths"][path]["get"]["responses"]["200"]
        reference = answer["content"]["application/json"]["schema"]["$ref"]
        assert reference.rpartition("/")[2] in schemas


async def test_requests_no_longer_in_memory_come_from_the_store(tmp_path: Path) -> None:
    """That is, after a restart or a thousand requests."""
    async with provider(answering) as remote:
        text = recorded_gateway.config(remote.base_url, other=f"auth: {{admin_key: {KEY}}}")
        async with recorded(text, tmp_path) as up:
            answers = [await recorded_gateway.ask(up.running, "s", "old is down, new is down")]
            answers += [await recorded_gateway.ask(up.running, "s") for _ in range(2)]
            up.settle()
            (before,) = (await operated(up, "?limit=1")).json()["requests"]
        async with recorded(text, tmp_path) as up:
            listed = (await operated(up, "")).json()["requests"]
            older = (await operated(up, f"?limit=2&before={before['time']}")).json()["requests"]
            one = (await operated(up, f"/{older[1]['request_id']}")).json()
            unknown = await operated(up, "/none")

    ids = [answer.headers["x-gateway-request-id"] for answer in answers]
    assert (before["source"], before["request_id"]) == ("memory", ids[2])
    assert [(past["source"], past["request_id"]) for past in listed] == [
        ("store", one) for one in reversed(ids)
    ]
    assert [past["request_id"] for past in older] == [ids[1], ids[0]]
    assert one == older[1]
    assert (one["source"], one["backend"], one["fallback"]) == ("store", "a/backup", True)
    assert [attempt["outcome"] for attempt in one["attempts"]][-2:] == ["upstream_failed", "ok"]
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_request")


async def operated(up: Recorded, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=up.running.url, headers=BEARER, timeout=60) as client:
        return await client.get(f"/admin/requests{path}")
