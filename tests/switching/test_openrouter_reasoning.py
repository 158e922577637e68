"""OpenRouter's `reasoning_details`: every client gets each maker's proofs, and returns them.

The entries are as OpenRouter streams them: Claude's block in pieces with one index, the signature
last; OpenAI's summary and encrypted data under one id; Gemini's data under the id of a call, before
the call, with it or after it. https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
"""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Final, cast

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.schemas.messages import CLAUDE, GEMINI, OPENAI
from tests.gateway.backends.vendors.dialect import Json, dicts, inner, sse
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Provider, Received, provider
from tests.switching.clients import CLIENTS
from tests.switching.reply import Client

pytestmark = pytest.mark.anyio

PROVING: Final = [name for name, one in CLIENTS.items() if one.proves]
"""Clients whose API has a place for proofs."""

CONFIG: Final = """
providers:
  - {{name: openrouter, adapter: openrouter, base_url: "{url}/api/v1", api_key: secret-0123456789}}
  - {{name: gemini, adapter: gemini, base_url: "{url}/v1beta", api_key: secret-0123456789}}
  - {{name: claude, adapter: anthropic, base_url: "{url}", api_key: secret-0123456789}}
  - {{name: openai, adapter: openai-responses, base_url: "{url}/v1", api_key: secret-0123456789}}
models:
  - {{name: CLAUDE, backends: [{{provider: openrouter, model: anthropic/claude-sonnet-4.5}}]}}
  - {{name: GEMINI, backends: [{{provider: openrouter, model: google/gemini-3-pro}}]}}
  - {{name: OPENAI, backends: [{{provider: openrouter, model: openai/gpt-5.2}}]}}
  - {{name: QWEN, backends: [{{provider: openrouter, model: qwen/qwen3-max}}]}}
  - {{name: gemini-itself, backends: [{{provider: gemini, model: gemini-3-pro}}]}}
  - {{name: claude-itself, backends: [{{provider: claude, model: claude-sonnet-4-5}}]}}
  - {{name: openai-itself, backends: [{{provider: openai, model: gpt-5.2}}]}}
"""
CALL: Final = "tool_0_weather"
PROOF: Final = "cHJvb2Ygb2YgdGhlIG1ha2Vy"
TOOL: Final = {"weather": {"type": "object", "properties": {"city": {"type": "string"}}}}


def text(*pieces: str, signature: str = "", place: int = 0) -> list[Json]:
    """Return Claude's block in pieces."""
    head: Json = {"type": "reasoning.text", "format": CLAUDE, "index": place}
    found: list[Json] = [{**head, "text": piece} for piece in pieces]
    return [*found, {**head, "signature": signature}] if signature else found


def block(shown: str, signature: str, place: int = 0) -> Json:
    """Return the block as a gateway sends it, after its text: whole."""
    (head,) = text(shown, place=place)
    return {**head, "signature": signature}


SUMMARY: Final[Json] = {
    "type": "reasoning.summary",
    "summary": "Hm.",
    "format": OPENAI,
    "id": "rs_1",
    "index": 0,
}
SEALED: Final[Json] = {
    "type": "reasoning.encrypted",
    "data": PROOF,
    "format": OPENAI,
    "id": "rs_1",
    "index": 1,
}
OF_CALL: Final[Json] = {
    "type": "reasoning.encrypted",
    "data": PROOF,
    "format": GEMINI,
    "id": CALL,
    "index": 0,
}
FUNCTION: Final = {"name": "weather", "arguments": '{"city":"Zürich"}'}
CALLED: Final[Json] = {"index": 0, "id": CALL, "type": "function", "function": FUNCTION}


def seen(*entries: Json) -> Json:
    """Return a delta with entries, and their text as OpenRouter repeats it."""
    shown = "".join([str(one.get("text") or one.get("summary") or "") for one in entries])
    return {"reasoning": shown or None, "reasoning_details": list(entries)}


CALLS: Final[Json] = {"tool_calls": [CALLED]}
STREAMS: Final[dict[str, list[Json]]] = {
    "CLAUDE": [
        *[seen(one) for one in text("Let ", "me ", "see.", signature=PROOF)],
        seen({"type": "reasoning.encrypted", "data": "aGlkZGVu", "format": CLAUDE, "index": 1}),
        *[seen(one) for one in text("Two", signature="dHdv", place=2)],
        CALLS,
    ],
    "CLAUDE behind a gateway": [
        *[{"reasoning": piece, "reasoning_content": piece} for piece in ("Let ", "me see.")],
        {"reasoning_signature": PROOF, "reasoning_details": [block("Let me see.", PROOF)]},
        seen({"type": "reasoning.encrypted", "data": "aGlkZGVu", "format": CLAUDE, "index": 1}),
        {"reasoning": "Tw", "reasoning_content": "Tw"},
        {
            "reasoning": "o",
            "reasoning_signature": "dHdv",
            "reasoning_details": [block("Two", "dHdv", 2)],
        },
        CALLS,
    ],
    "OPENAI": [seen(SUMMARY), seen(SEALED), CALLS],
    "GEMINI": [seen(OF_CALL), CALLS],
    "GEMINI at once": [{**seen(OF_CALL), **CALLS}],
    "GEMINI later": [CALLS, seen(OF_CALL)],
}
RETURNED: Final[dict[str, list[Json]]] = {
    "CLAUDE": [
        {"type": "reasoning.text", "text": "Let me see.", "signature": PROOF, "format": CLAUDE},
        {"type": "reasoning.encrypted", "data": "aGlkZGVu", "format": CLAUDE},
        {"type": "reasoning.text", "text": "Two", "signature": "dHdv", "format": CLAUDE},
    ],
    "OPENAI": [
        {"type": "reasoning.summary", "summary": "Hm.", "format": OPENAI},
        {"type": "reasoning.encrypted", "data": PROOF, "format": OPENAI, "id": "rs_1"},
    ],
    "GEMINI": [{"type": "reasoning.encrypted", "data": PROOF, "format": GEMINI, "id": CALL}],
}


class Rig(Struct, kw_only=True, eq=False):
    """The vendor answers with `deltas`, and records what it gets."""

    web: httpx.AsyncClient
    server: Provider
    deltas: list[Json]

    async def turns(self, client: Client, first: str, second: str, *, stream: bool) -> Json:
        """Ask twice; return what the second vendor gets."""
        items = [client.user("What is the weather?")]
        self.deltas[:] = STREAMS[first]
        model = first.partition(" ")[0]
        answer = await self._ask(client, model, items, stream=stream)
        reply = client.reply(answer.content, "everything", stream=stream)
        # Clients of the Messages API get the signature in the id, if no thought precedes it.
        assert [call[0].partition("__thought__")[0] for call in reply.calls] == [CALL]
        items += [*reply.items, *client.results(reply, ["19 degrees"]), client.user("And?")]
        self.deltas[:] = [{"content": "Fine."}]
        await self._ask(client, second, items, stream=False, fails=second.endswith("itself"))
        return self.server.requests[-1].json

    async def _ask(
        self,
        client: Client,
        model: str,
        items: Sequence[Json],
        *,
        stream: bool,
        fails: bool = False,
    ) -> httpx.Response:
        """fails: the vendor is not OpenRouter, and what it answers does not matter."""
        path, body = client.sends(model, client.body(items, TOOL), stream=stream)
        answer = await self.web.post(path, json=body)
        assert fails or answer.status_code == 200, answer.text
        return answer


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    deltas: list[Json] = []

    async def behave(request: Received, answer: Answer) -> None:
        model = str(request.json.get("model"))
        if "/chat/completions" not in request.path:
            await answer.json({"error": {"message": "not played", "type": "x"}}, 400)
        elif request.json.get("stream"):
            chunks = [chunk(model, delta) for delta in deltas]
            frames = b"".join([*chunks, chunk(model, {}, "stop"), b"data: [DONE]\n\n"])
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            await answer.raw(head + b"transfer-encoding: chunked\r\n\r\n")
            await answer.chunk(frames)
            await answer.raw(b"0\r\n\r\n")
        else:
            message = whole(deltas)
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            await answer.json({"id": "gen-1", "model": model, "choices": [choice]})

    async with provider(behave) as server:
        run = tmp_path_factory.mktemp("openrouter")
        config = CONFIG.format(url=server.origin)
        async with (
            serving(config, run) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as web,
        ):
            yield Rig(web=web, server=server, deltas=deltas)


def chunk(model: str, delta: Json, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": "gen-1", "model": model, "choices": [choice]})


def whole(deltas: Sequence[Json]) -> Json:
    """Return the message of a stream: blocks and texts are whole, calls have no index."""
    message: dict[str, object] = {"role": "assistant", "content": None}
    details: list[dict[str, object]] = []
    for delta in deltas:
        message |= {name: value for name, value in delta.items() if name == "content"}
        for one in dicts(delta.get("tool_calls")):
            message["tool_calls"] = [{k: value for k, value in one.items() if k != "index"}]
        for one in dicts(delta.get("reasoning_details")):
            last = details[-1] if details else {}
            if (one["type"], one["index"]) == (last.get("type"), last.get("index")):
                joined = f"{last.get('text', '')}{one.get('text', '')}"
                details[-1] = {**last, **one, "text": joined}
            else:
                details.append({**one})
    if details:
        texts = [str(one.get("text") or one.get("summary") or "") for one in details]
        message |= {"reasoning": "".join(texts), "reasoning_details": details}
    return message


def returned(body: Json) -> list[Json]:
    """Return the entries that the vendor gets, without their numbers."""
    (turn,) = [one for one in dicts(body["messages"]) if one["role"] == "assistant"]
    assert "extra_content" not in json.dumps(turn)
    assert "reasoning_signature" not in turn
    entries = dicts(turn["reasoning_details"])
    return [{name: value for name, value in one.items() if name != "index"} for one in entries]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("first", list(STREAMS))
@pytest.mark.parametrize("client", PROVING)
async def test_each_maker_gets_its_proofs_back(
    rig: Rig, client: str, first: str, *, stream: bool
) -> None:
    maker = first.partition(" ")[0]

    body = await rig.turns(CLIENTS[client], first, maker, stream=stream)

    expected = RETURNED[maker]
    if client == "chat" and maker == "OPENAI":
        expected = [{**expected[0], "id": "rs_1"}, expected[1]]
    assert returned(body) == expected


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", PROVING)
async def test_google_gets_the_proof_on_the_call(rig: Rig, client: str, *, stream: bool) -> None:
    body = await rig.turns(CLIENTS[client], "GEMINI later", "gemini-itself", stream=stream)

    parts = [part for turn in dicts(body["contents"]) for part in dicts(turn["parts"])]
    (call,) = [part for part in parts if "functionCall" in part]
    assert call["thoughtSignature"] == PROOF


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("first", ["CLAUDE", "CLAUDE behind a gateway"])
@pytest.mark.parametrize("client", PROVING)
async def test_anthropic_gets_each_block_with_its_signature(
    rig: Rig, client: str, first: str, *, stream: bool
) -> None:
    body = await rig.turns(CLIENTS[client], first, "claude-itself", stream=stream)

    blocks = [block for turn in dicts(body["messages"]) for block in dicts(turn["content"])]
    assert [one for one in blocks if "thinking" in str(one["type"])] == [
        {"type": "thinking", "thinking": "Let me see.", "signature": PROOF},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "thinking", "thinking": "Two", "signature": "dHdv"},
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", PROVING)
async def test_openai_gets_its_item_with_summary_and_id(
    rig: Rig, client: str, *, stream: bool
) -> None:
    body = await rig.turns(CLIENTS[client], "OPENAI", "openai-itself", stream=stream)

    (item,) = [one for one in dicts(body["input"]) if one["type"] == "reasoning"]
    assert (item["id"], item["encrypted_content"]) == ("rs_1", PROOF)
    assert [one["text"] for one in dicts(item["summary"])] == ["Hm."]


@pytest.mark.parametrize("first", list(RETURNED))
@pytest.mark.parametrize("client", PROVING)
async def test_another_makers_model_gets_no_proof(rig: Rig, client: str, first: str) -> None:
    body = await rig.turns(CLIENTS[client], first, "QWEN", stream=True)

    assert PROOF not in json.dumps(body)


async def test_a_chat_client_gets_the_entries_as_they_came(rig: Rig) -> None:
    rig.deltas[:] = STREAMS["OPENAI"]
    request = {"model": "OPENAI", "messages": [{"role": "user", "content": "Hello"}]}

    answer = await rig.web.post("/v1/chat/completions", json=request)

    (choice,) = dicts(cast("Json", answer.json())["choices"])
    message = inner(choice, "message")
    assert (message["reasoning_details"], message["reasoning"]) == ([SUMMARY, SEALED], "Hm.")
