"""A fake Messages API on loopback, as strict as Anthropic's documentation.

    async with provider(messages_api) as server:
        ...  # a provider `adapter: anthropic`, `base_url: {server.origin}`
    server.requests[-1].json             # the request that it received

Requests with tools but without results get a call of the first tool for each of `PLACES`, after
reasoning if thinking is on; all others get `ANSWER`. Reasoning has a signature, and a later turn
with its calls must contain both unchanged. If the user's last text is one of the words below, the
request fails accordingly.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import cast

from tests.stand_ins.provider import Answer, Received

Json = Mapping[str, object]

KEY = "sk-ant-fake-0123456789"
PLACES = ("Bern", "Basel")
ANSWER = ("It is 19", " degrees 🌍.")
THOUGHT = ("I look", " it up.")

BUSY = "be overloaded"
LIMIT = "be at the limit"
LONG = "be too long"
REFUSE = "say no"

FAILURES = {
    BUSY: (529, "overloaded_error", "Overloaded"),
    LIMIT: (429, "rate_limit_error", "This request would exceed your rate limit."),
    LONG: (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
}
FIELDS = frozenset(
    {
        "model",
        "messages",
        "system",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "stream",
        "metadata",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "service_tier",
        "cache_control",
        "container",
    }
)


class Refused(Exception):
    """A request that the API rejects."""


def proof(thought: str) -> str:
    return sha256(thought.encode()).hexdigest()[:16]


async def messages_api(request: Received, answer: Answer) -> None:
    body = request.json
    if request.path != "/v1/messages":
        await _fail(answer, 404, "not_found_error", "Not found")
    elif request.headers.get("x-api-key") != KEY:
        await _fail(answer, 401, "authentication_error", "invalid x-api-key")
    else:
        try:
            _check(request.headers, body)
        except Refused as exc:
            await _fail(answer, 400, "invalid_request_error", str(exc))
            return
        said = _last_text(body)
        if said in FAILURES:
            await _fail(answer, *FAILURES[said])
        elif body.get("stream"):
            await _stream(answer, body, said)
        else:
            await answer.json(_whole(body, said))


async def _fail(answer: Answer, status: int, kind: str, message: str) -> None:
    said = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    await answer.json(said, status, {"retry-after": "0"} if status == 429 else None)


async def _stream(answer: Answer, body: Json, said: str) -> None:
    await answer.begin_stream()
    for event in _events(body, said):
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
        await answer.chunk(data.encode())
    await answer.raw(b"0\r\n\r\n")


def _blocks(body: Json, said: str) -> list[Json]:
    """Return the complete answer."""
    if said == REFUSE:
        return []
    found: list[Json] = []
    if _thinks(body):
        thought = "".join(THOUGHT)
        found.append({"type": "thinking", "thinking": thought, "signature": proof(thought)})
    tools = cast("list[Json]", body.get("tools", []))
    if tools and not _results(cast("list[Json]", body["messages"])[-1]):
        calls = [
            {"type": "tool_use", "id": f"toolu_{p}", "name": tools[0]["name"], "input": {"at": p}}
            for p in PLACES
        ]
        return [*found, {"type": "text", "text": "One moment."}, *calls]
    return [*found, {"type": "text", "text": "".join(ANSWER)}]


def _end(blocks: Sequence[Json], said: str) -> Json:
    if said == REFUSE:
        details = {"type": "refusal", "category": "cyber", "explanation": "No malware."}
        return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
    calls = any(one["type"] == "tool_use" for one in blocks)
    return {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}


def _message(body: Json) -> dict[str, object]:
    usage = {"input_tokens": 11, "cache_read_input_tokens": 100, "output_tokens": 1}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _whole(body: Json, said: str) -> Json:
    message, blocks = _message(body), _blocks(body, said)
    usage = {**cast("Json", message["usage"]), "output_tokens": 5}
    return {**message, "content": blocks, **_end(blocks, said), "usage": usage}


def _events(body: Json, said: str) -> Iterator[Json]:
    blocks = _blocks(body, said)
    yield {"type": "message_start", "message": _message(body)}
    yield {"type": "ping"}
    for index, block in enumerate(blocks):
        empty, deltas = _pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": _end(blocks, said), "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """Return a block's start and its deltas."""
    match block["type"]:
        case "thinking":
            thoughts = [{"type": "thinking_delta", "thinking": one} for one in THOUGHT]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*thoughts, signed]
        case "tool_use":
            text = json.dumps(block["input"])
            pieces = ("", text[:5], text[5:])
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": one} for one in pieces
            ]
        case _:
            text = str(block["text"])
            return {**block, "text": ""}, [
                {"type": "text_delta", "text": one} for one in (text[:6], text[6:])
            ]


def _check(headers: Mapping[str, str], body: Json) -> None:
    _demand(headers.get("anthropic-version") == "2023-06-01", "anthropic-version: required")
    for name in sorted(body.keys() - FIELDS):
        raise Refused(f"{name}: Extra inputs are not permitted")
    limit = body.get("max_tokens")
    _demand(isinstance(limit, int) and limit > 0, "max_tokens: Field required")
    turns = cast("list[Json]", body.get("messages", []))
    _demand(bool(turns), "messages: at least one message is required")
    roles = [one["role"] for one in turns]
    expected = [("user", "assistant")[place % 2] for place in range(len(turns))]
    _demand(roles == expected, f"messages: roles must alternate, beginning with user: {roles}")
    for tool in cast("list[Json]", body.get("tools", [])):
        schema = cast("Json", tool.get("input_schema", {}))
        _demand(schema.get("type") == "object", "tools.0.custom.input_schema.type: required")
    for place, turn in enumerate(turns):
        content = _content(turn)
        _demand(bool(content), f"messages.{place}: content must not be empty")
        texts = [one["text"] for one in content if one["type"] == "text"]
        _demand(all(str(one).strip() for one in texts), "messages: text must be non-empty")
        if place:
            _check_calls(_content(turns[place - 1]), content, thinks=_thinks(body))


def _check_calls(before: list[Json], content: list[Json], *, thinks: bool) -> None:
    """Check that each call is answered first in the next message, and has its thinking block."""
    calls = [one["id"] for one in before if one["type"] == "tool_use"]
    results = [one["tool_use_id"] for one in content if one["type"] == "tool_result"]
    _demand(sorted(map(str, calls)) == sorted(map(str, results)), "tool_use without tool_result")
    kinds = [one["type"] for one in content[: len(results)]]
    _demand(set(kinds) <= {"tool_result"}, "tool_result blocks must come first")
    if calls and thinks:
        first = before[0]
        _demand(first["type"] == "thinking", "Expected `thinking`, but found `text`")
        signed = first["signature"] == proof(str(first["thinking"]))
        _demand(signed, "Invalid `signature` in `thinking` block")


def _demand(met: bool, otherwise: str) -> None:
    if not met:
        raise Refused(otherwise)


def _thinks(body: Json) -> bool:
    thinking = cast("Json", body.get("thinking", {}))
    return thinking.get("type") in ("adaptive", "enabled")


def _content(turn: Json) -> list[Json]:
    content = turn["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return cast("list[Json]", content)


def _results(turn: Json) -> bool:
    return any(one["type"] == "tool_result" for one in _content(turn))


def _last_text(body: Json) -> str:
    texts = [one for one in _content(cast("list[Json]", body["messages"])[-1]) if "text" in one]
    return str(texts[-1]["text"]) if texts else ""
