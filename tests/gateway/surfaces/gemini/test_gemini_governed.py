"""The Gemini API has what every API has: guardrails, limits, prices, the cache, and `explain`."""

import json
from collections.abc import AsyncGenerator

import httpx
import pytest

from strowger_gateway.gateway.surfaces.routes import parse_any
from tests.gateway.backends.vendors.dialect import Json
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

SECRET, MASKED = "C-12345678", "[customer]"
KEY = "key-of-a-team-0123456789"
CONFIG = (
    f"""
auth: {{mode: keys, keys: [{{name: team, key: {KEY}}}]}}
"""
    + """
guardrails:
  - name: customers
    use: patterns
    mode: mask
    settings: {patterns: [{name: customer, regex: "C-[0-9]{8}", replacement: "[customer]"}]}
  - name: projects
    use: patterns
    where: input
    mode: block
    settings: {words: [project falcon]}
limits: [{name: few, who: {any: true}, each: key, models: [limited], requests: 1, per: minute}]
cache: {ttl_s: 600}
providers:
  - {name: remote, adapter: openai, base_url: URL/v1, api_key: k-0123456789}
  - {name: google, adapter: gemini, base_url: URL/v1beta, api_key: k-0123456789}
models:
  - {name: chat, backends: [{provider: remote, model: m}]}
  - {name: native, backends: [{provider: google, model: gemini-2.5-flash}]}
  - {name: limited, backends: [{provider: remote, model: m}]}
  - {name: cached, cache: {when: always}, backends: [{provider: remote, model: m}]}
prices:
  - {match: remote/m, input: 1.0, output: 2.0}
"""
)
SAYS = f"It is {SECRET}."
CODE: Json = {"executableCode": {"language": "PYTHON", "code": f"print('{SECRET}')"}}
BOTH = pytest.mark.parametrize("model", ["chat", "native"])


async def repeats(request: Received, answer: Answer) -> None:
    """OpenAI's API and Google's, whose answers have a customer's number."""
    if "/models/" in request.path:
        parts = [CODE, {"text": SAYS}]
        one = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
        body = {"candidates": [one], "usageMetadata": usage, "responseId": "r"}
        if not request.path.endswith("alt=sse"):
            await answer.json(body)
            return
        await answer.begin_stream()
        await answer.chunk(b"data: %b\r\n\r\n" % json.dumps(body).encode())
        await answer.raw(b"0\r\n\r\n")
        return
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    head: Json = {"id": "c", "created": 1, "model": "m"}
    if not request.json.get("stream"):
        said = "Hello" if b"plainly" in request.body else SAYS
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        await answer.json(whole)
        return
    await answer.begin_stream()
    pieces: list[Json] = [{"content": SAYS[:9]}, {"content": SAYS[9:]}]
    for place, delta in enumerate(pieces):
        choice = {"index": 0, "delta": delta, "finish_reason": "stop" if place else None}
        chunk = {**head, "object": "chat.completion.chunk", "choices": [choice]}
        await answer.chunk(f"data: {json.dumps(chunk)}\n\n".encode())
    await answer.chunk(b"data: [DONE]\n\n")
    await answer.raw(b"0\r\n\r\n")


class Governed:
    """A gateway with rules, and the server behind it."""

    def __init__(self, server: Provider, gateway: Serving, web: httpx.AsyncClient) -> None:
        self.server, self.gateway, self.web = server, gateway, web

    async def ask(self, model: str, *texts: str, verb: str = "generateContent") -> httpx.Response:
        parts = [{"text": one} for one in texts]
        body = {"contents": [{"role": "user", "parts": parts}]}
        return await self.web.post(f"/v1beta/models/{model}:{verb}", json=body)


@pytest.fixture(scope="module")
async def governed(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Governed, None]:
    async with (
        provider(repeats) as server,
        serving(CONFIG.replace("URL", server.origin), tmp_path_factory.mktemp("run")) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60, headers={"x-goog-api-key": KEY}) as web,
    ):
        yield Governed(server, up, web)


@BOTH
async def test_what_a_guardrail_masks_reaches_no_vendor(governed: Governed, model: str) -> None:
    body = {
        "systemInstruction": {"parts": [{"text": f"Serve {SECRET}."}]},
        "contents": [
            {"role": "user", "parts": [{"text": f"I am {SECRET}."}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": SECRET}}}]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "f", "response": {"result": SECRET}}}],
            },
        ],
        "tools": [{"functionDeclarations": [{"name": "f", "description": f"Of {SECRET}"}]}],
    }

    answer = await governed.web.post(f"/v1beta/models/{model}:generateContent", json=body)

    assert answer.status_code == 200, answer.text
    sent = governed.server.requests[-1].body.decode()
    assert SECRET not in sent
    assert sent.count(MASKED) == 5


@BOTH
@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent?alt=sse"])
async def test_what_a_guardrail_masks_reaches_no_client(
    governed: Governed, model: str, verb: str
) -> None:
    answer = await governed.ask(model, "hi", verb=verb)

    assert answer.status_code == 200, answer.text
    assert SECRET not in answer.text
    assert MASKED in answer.text
    assert model != "native" or "executableCode" in answer.text


@BOTH
async def test_a_refusal_of_a_guardrail_is_googles_error(governed: Governed, model: str) -> None:
    asked = len(governed.server.requests)

    answer = await governed.ask(model, "Tell me of project falcon.")

    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert answer.json()["error"]["details"][0]["reason"] == "CONTENT_BLOCKED"
    assert len(governed.server.requests) == asked


async def test_a_limit_says_when_to_come_back_as_google_says_it(governed: Governed) -> None:
    await governed.ask("limited", "hi")

    answer = await governed.ask("limited", "hi")

    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (429, "RESOURCE_EXHAUSTED")
    (again,) = [one for one in error["details"] if one["@type"].endswith("RetryInfo")]
    assert again["retryDelay"].endswith("s")
    assert 0 < float(again["retryDelay"][:-1]) <= 60


async def test_a_request_is_recorded_with_its_tokens_and_its_price(governed: Governed) -> None:
    await governed.ask("chat", "hi")

    line = governed.gateway.access_lines()[-1]
    assert (line.surface, line.task, line.model) == ("gemini", "chat", "chat")
    assert (line.prompt_tokens, line.completion_tokens) == (3, 2)
    assert line.cost_usd == pytest.approx(7e-6)


async def test_an_equal_request_is_answered_from_the_cache(governed: Governed) -> None:
    first = await governed.ask("cached", "Answer plainly.")
    asked = len(governed.server.requests)

    second = await governed.ask("cached", "Answer plainly.")

    assert second.headers["x-gateway-cache"] == "hit"
    assert len(governed.server.requests) == asked
    assert second.json()["candidates"] == first.json()["candidates"]


def test_a_body_is_recognised_by_its_fields_where_no_path_is_given() -> None:
    """As `strowger explain` does it."""
    bodies = {
        ":generateContent": {"contents": [{"parts": [{"text": "hi"}]}]},
        ":embedContent": {"content": {"parts": [{"text": "hi"}]}},
        ":batchEmbedContents": {"requests": [{"content": {"parts": [{"text": "hi"}]}}]},
    }
    for verb, body in bodies.items():
        found = parse_any(json.dumps(body).encode(), path="gemini", model="a/b")

        assert found.path == f"/v1beta/models/a/b{verb}"
        assert found.request.model == "a/b"
