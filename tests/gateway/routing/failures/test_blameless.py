"""Nothing that a client sends counts as a backend failure or diverts other requests."""

import json
from pathlib import Path

import httpx
import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_from
from strowger_gateway.local_engine.protocol.frames import SLOW_WORKER
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamBusy, UpstreamError
from strowger_gateway.schemas.secret import Secret
from tests.gateway.routing.failures.engine_stand_in import Asked, stand_ins
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth: {{mode: keys, keys: [{{name: hostile, key: key-of-the-hostile-one}},
                           {{name: other, key: key-of-the-other-one-x}}]}}
providers:
  - {{name: a, adapter: openai, base_url: {a}, api_key: k}}
  - {{name: b, adapter: openai, base_url: {b}, api_key: k}}
models:
  - name: chat
    policy: in_order
    retry: {{backoff_s: 0}}
    breaker: {{min_requests: 1}}
    backends: [{{provider: a, model: m}}, {{provider: b, model: m}}]
"""
DEEP = '{"a":' + "[" * 500 + "]" * 500 + "}"


def body(text: str, **more: object) -> dict[str, object]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}], **more}


CALLS = [
    {"id": "c", "type": "function", "function": {"name": "f", "arguments": DEEP}},
]
HOSTILE: list[dict[str, object]] = [
    *(body(f"hostile {status}") for status in (400, 403, 404, 409, 413, 415, 422, 431, 451)),
    body("hostile 400", seed=2**70),
    body("hostile 400", max_tokens=2**62),
    body("x", timeout=0.001),
    {
        "model": "chat",
        "messages": [
            {"role": "user", "content": "hostile 400"},
            {"role": "assistant", "tool_calls": CALLS},
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ],
    },
]


async def vendor(request: Received, answer: Answer) -> None:
    said = json.dumps(request.json)
    if "hostile " in said:
        status = int(said.partition("hostile ")[2][:3])
        await answer.json({"error": {"message": "no", "type": "invalid_request_error"}}, status)
    else:
        await answers(request, answer)


async def test_errors_of_one_client_never_divert_another_clients_requests(
    tmp_path: Path,
) -> None:
    async with (
        provider(vendor) as a,
        provider(vendor) as b,
        serving(CONFIG.format(a=a.base_url, b=b.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):

        async def ask(key: str, sent: dict[str, object]) -> httpx.Response:
            headers = {"authorization": f"Bearer {key}"}
            return await client.post("/v1/chat/completions", json=sent, headers=headers)

        served: list[str] = []
        for hostile in HOSTILE * 2:
            await ask("key-of-the-hostile-one", hostile)
            beside = await ask("key-of-the-other-one-x", body("hello"))
            served.append(beside.headers["x-gateway-backend"])
        open_ = [
            name
            for name, one in gateway.state.runtime.backends.items()
            if one.breaker.open_until is not None
        ]

    assert set(served) == {"a/m"}
    assert open_ == []


@pytest.mark.parametrize(
    ("status", "word", "counts"),
    [
        *((401, "", True), (402, "", True), (403, "", False), (403, "invalid_api_key", True)),
        *((404, "", False), (405, "", True), (410, "", True), (500, "", True), (503, "", True)),
    ],
)
def test_a_refusal_counts_where_no_client_can_have_caused_it(
    status: int, word: str, counts: bool
) -> None:
    endpoint = Endpoint(name="p", base_url="https://p.test/v1", key=Secret("k"), headers=())
    said = json.dumps({"error": {"message": "no", "code": word}}).encode()

    error = error_from(endpoint, status, {}, said)

    assert isinstance(error, UpstreamError)
    assert error.counts is counts


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (UpstreamBusy("too many answers are queued", upstream="e", retry_after=1.0), False),
        (UpstreamBroken("the worker did not read", upstream="e", code=SLOW_WORKER), False),
        (UpstreamBroken("cannot read the answer", upstream="e"), True),
    ],
    ids=["queue", "slow worker", "broken"],
)
async def test_what_keys_and_the_gateway_do_to_an_engine_is_not_its_failure(
    error: UpstreamError, counts: bool, tmp_path: Path
) -> None:
    async def conduct(asked: Asked) -> None:
        await asked.fail(error)

    config = """
providers:
  - {name: own, adapter: local, engine: {models: [{name: tiny, path: "bundled:tiny-chat"}]}}
  - {name: b, adapter: openai, base_url: URL, api_key: k}
models:
  - {name: chat, policy: in_order, retry: {attempts: 2, backoff_s: 0}, breaker: {min_requests: 1},
     backends: [{provider: own, model: tiny}, {provider: b, model: m}]}
"""
    async with (
        provider(answers) as b,
        stand_ins(tmp_path, conduct) as engines,
        serving(config.replace("URL", b.base_url), tmp_path, engine=engines) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post("/v1/chat/completions", json=body("hello"))
        engine = gateway.state.runtime.backends["chat: own/tiny"]
        (attempt, _) = gateway.access_lines()[0].attempts

    assert answer.status_code == 200
    assert (engine.breaker.failed > 0) is counts
    assert engine.breaker.cooldown_left(0.0) == 0
    assert attempt.outcome in ("rate_limit_exceeded", "upstream_broken")
