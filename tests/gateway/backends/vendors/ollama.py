"""Ollama's `/api/chat` and `/api/embed` as a vendor's wire: lines of JSON, calls without ids."""

import json

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
)

LAST: Json = {
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": USAGE[0],
    "eval_count": USAGE[1],
}


class OllamaDialect:
    kind = "application/x-ndjson"

    def whole(self, said: Said) -> Json:
        fields: dict[str, object] = {"content": said.whole_text}
        if said.thought:
            fields["thinking"] = said.thought
        if said.calls:
            fields["tool_calls"] = [_call(one) for one in said.calls]
        return {**_part(fields), **LAST}

    def streamed(self, said: Said) -> Streamed:
        pieces: list[Json] = [{"content": "", "thinking": said.thought}] if said.thought else []
        pieces += [{"content": one} for one in said.text]
        pieces += [{"content": "", "tool_calls": [_call(one)]} for one in said.calls]
        return Streamed(
            content=[_line(_part(one)) for one in pieces],
            end=[_line({**_part({"content": ""}), **LAST})],
        )

    def received(self, body: Json) -> ReceivedRequest:
        return ReceivedRequest(
            turns=tuple(_turn(one) for one in dicts(body["messages"])),
            tools=tuple(str(inner(one, "function")["name"]) for one in dicts(body.get("tools"))),
            schema=body.get("format"),
        )

    def error(self, status: int, message: str) -> Json:
        return {"error": message}

    def failure(self) -> bytes:
        return _line({"error": FAULT})

    def failed(self) -> Json:
        return {"error": FAULT}


def vectors(body: Json) -> Json:
    vectors = [[0.5, -1.0] for _ in dicts(body["input"])]
    return {"model": "e", "embeddings": vectors, "prompt_eval_count": USAGE[0]}


def _line(body: Json) -> bytes:
    return json.dumps(body).encode() + b"\n"


def _part(fields: Json) -> Json:
    message = {"role": "assistant", **fields}
    return {
        "model": "m1",
        "created_at": "2026-03-01T10:20:30.1Z",
        "done": False,
        "message": message,
    }


def _call(one: Call) -> Json:
    return {"function": {"name": one.name, "arguments": one.arguments}}


def _turn(message: Json) -> Turn:
    text = str(message["content"])
    if message["role"] == "tool":
        return Turn(role="tool", results=((str(message["tool_call_id"]), text),))
    thought = message.get("thinking")
    calls = [(one["id"], inner(one, "function")) for one in dicts(message.get("tool_calls"))]
    return Turn(
        role=str(message["role"]),
        text=text,
        thoughts=((str(thought), ""),) if thought else (),
        calls=tuple(
            Call(id=str(id), name=str(one["name"]), arguments=inner(one, "arguments"))
            for id, one in calls
        ),
        images=tuple(map(str, dicts(message.get("images")))),
    )
