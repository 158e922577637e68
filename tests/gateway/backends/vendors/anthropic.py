"""Anthropic's Messages API as a vendor's wire."""

import json
from collections.abc import Iterator

from tests.gateway.backends.vendors.dialect import (
    FAULT,
    USAGE,
    Call,
    Json,
    ReceivedRequest,
    Said,
    Streamed,
    Turn,
    dicts,
    inner,
    sse,
)


class AnthropicDialect:
    kind = "text/event-stream"

    def whole(self, said: Said) -> Json:
        usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1]}
        end = {"stop_reason": _finish(said), "stop_sequence": None}
        return {**_message(), "content": _blocks(said), **end, "usage": usage}

    def streamed(self, said: Said) -> Streamed:
        end = {"stop_reason": _finish(said), "stop_sequence": None}
        counted = {"type": "message_delta", "delta": end, "usage": {"output_tokens": USAGE[1]}}
        return Streamed(
            before=[_event({"type": "message_start", "message": _message()})],
            content=[
                piece
                for index, block in enumerate(_blocks(said))
                for piece in _pieces(index, block, said)
            ],
            end=[_event(counted), _event({"type": "message_stop"})],
        )

    def received(self, body: Json) -> ReceivedRequest:
        return ReceivedRequest(
            turns=tuple(_turn(one) for one in dicts(body["messages"])),
            tools=tuple(str(one["name"]) for one in dicts(body.get("tools"))),
            schema=inner(body, "output_config", "format").get("schema"),
        )

    def error(self, status: int, message: str) -> Json:
        return {"type": "error", "error": {"type": "some_error", "message": message}}

    def failure(self) -> bytes:
        return _event(self.failed())

    def failed(self) -> Json:
        return {"type": "error", "error": {"type": "api_error", "message": FAULT}}


def _event(body: Json) -> bytes:
    return sse(body, str(body["type"]))


def _finish(said: Said) -> str:
    return "tool_use" if said.calls else "end_turn"


def _message() -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": USAGE[0], "output_tokens": 1},
    }


def _blocks(said: Said) -> list[Json]:
    found: list[Json] = []
    if said.thought:
        found.append({"type": "thinking", "thinking": said.thought, "signature": said.proof})
    if said.text:
        found.append({"type": "text", "text": said.whole_text})
    calls: list[Json] = [
        {"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments}
        for one in said.calls
    ]
    return found + calls


def _pieces(index: int, block: Json, said: Said) -> Iterator[bytes]:
    """A block's beginning with its first piece, the others, and its end."""
    empty: dict[str, object]
    match block["type"]:
        case "thinking":
            empty = {**block, "thinking": "", "signature": ""}
            deltas: list[Json] = [
                {"type": "thinking_delta", "thinking": said.thought},
                {"type": "signature_delta", "signature": said.proof},
            ]
        case "tool_use":
            empty = {**block, "input": dict[str, object]()}
            text = json.dumps(block["input"]) if block["input"] else ""
            deltas = [
                {"type": "input_json_delta", "partial_json": one} for one in (text[:1], text[1:])
            ]
        case _:
            empty = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": one} for one in said.text]
    begun = _event({"type": "content_block_start", "index": index, "content_block": empty})
    for delta in deltas:
        yield begun + _event({"type": "content_block_delta", "index": index, "delta": delta})
        begun = b""
    yield _event({"type": "content_block_stop", "index": index})


def _turn(turn: Json) -> Turn:
    content = turn["content"]
    blocks = dicts([{"type": "text", "text": content}] if isinstance(content, str) else content)
    by_type = {
        kind: [one for one in blocks if one["type"] == kind] for kind in {b["type"] for b in blocks}
    }
    return Turn(
        role=str(turn["role"]),
        text="".join(str(one["text"]) for one in by_type.get("text", [])),
        thoughts=tuple(
            (str(one["thinking"]), str(one["signature"])) for one in by_type.get("thinking", [])
        ),
        calls=tuple(
            Call(id=str(one["id"]), name=str(one["name"]), arguments=inner(one, "input"))
            for one in by_type.get("tool_use", [])
        ),
        results=tuple(
            (str(one["tool_use_id"]), _text(one["content"]))
            for one in by_type.get("tool_result", [])
        ),
        images=tuple(str(inner(one, "source")["data"]) for one in by_type.get("image", [])),
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(one.get("text", "")) for one in dicts(content))
