"""Cohere's `/v2/chat` and `/v2/embed` as a vendor's wire."""

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
    data_of,
    dicts,
    inner,
    sse,
)

COUNTS: Json = {"tokens": {"input_tokens": float(USAGE[0]), "output_tokens": float(USAGE[1])}}


class CohereDialect:
    """Reasoning before calls is a plan, and calls come without text."""

    kind = "text/event-stream"

    def whole(self, said: Said) -> Json:
        message: dict[str, object] = {"role": "assistant"}
        if said.calls:
            message["tool_calls"] = [_call(one) for one in said.calls]
        if said.calls and said.thought:
            message["tool_plan"] = said.thought
        elif not said.calls:
            thought = [{"type": "thinking", "thinking": said.thought}] if said.thought else []
            message["content"] = [*thought, {"type": "text", "text": said.whole_text}]
        return {"id": "c1", "finish_reason": _finish(said), "message": message, "usage": COUNTS}

    def streamed(self, said: Said) -> Streamed:
        content: list[bytes] = []
        if said.calls and said.thought:
            content.append(_step("tool-plan-delta", 0, {"tool_plan": said.thought}))
        elif said.thought:
            content.append(_step("content-start", 0, _piece("thinking", "")))
            content.append(_step("content-delta", 0, _piece("thinking", said.thought)))
        if not said.calls:
            content += [_step("content-delta", 1, _piece("text", one)) for one in said.text]
        for index, call in enumerate(said.calls):
            function = inner(_call(call), "function")
            begun = {**_call(call), "function": {**function, "arguments": ""}}
            text = str(function["arguments"]) if call.arguments else ""
            content.append(_step("tool-call-start", index, {"tool_calls": begun}))
            content += [
                _step("tool-call-delta", index, {"tool_calls": {"function": {"arguments": half}}})
                for half in (text[:1], text[1:])
            ]
            content.append(sse({"type": "tool-call-end", "index": index}))
        end = {"finish_reason": _finish(said), "usage": COUNTS}
        return Streamed(
            before=[sse({"type": "message-start", "id": "c1", "delta": {"message": {}}})],
            content=content,
            end=[sse({"type": "message-end", "delta": end})],
        )

    def received(self, body: Json) -> ReceivedRequest:
        return ReceivedRequest(
            turns=tuple(_turn(one) for one in dicts(body["messages"])),
            tools=tuple(str(inner(one, "function")["name"]) for one in dicts(body.get("tools"))),
            schema=inner(body, "response_format").get("json_schema"),
        )

    def error(self, status: int, message: str) -> Json:
        return {"id": "e1", "message": message}

    def failure(self) -> bytes:
        end = {"finish_reason": "ERROR", "error": FAULT}
        return sse({"type": "message-end", "delta": end})

    def failed(self) -> Json:
        return {**self.whole(Said(text=("half an ans",))), "finish_reason": "ERROR"}


def vectors(body: Json) -> Json:
    vectors = [[0.5, -1.0] for _ in dicts(body["texts"])]
    meta = {"billed_units": {"input_tokens": USAGE[0]}}
    return {"id": "e", "embeddings": {"float": vectors}, "meta": meta}


def _finish(said: Said) -> str:
    return "TOOL_CALL" if said.calls else "COMPLETE"


def _piece(kind: str, text: str) -> Json:
    return {"content": {"type": kind, kind: text}}


def _step(kind: str, index: int, fields: Json) -> bytes:
    return sse({"type": kind, "index": index, "delta": {"message": fields}})


def _call(one: Call) -> Json:
    function = {"name": one.name, "arguments": json.dumps(one.arguments)}
    return {"id": one.id, "type": "function", "function": function}


def _turn(message: Json) -> Turn:
    content = message.get("content")
    parts = dicts([{"type": "text", "text": content}] if isinstance(content, str) else content)
    text = "".join(str(one.get("text", "")) for one in parts)
    if message["role"] == "tool":
        return Turn(role="tool", results=((str(message["tool_call_id"]), text),))
    plan = message.get("tool_plan")
    thoughts = [plan, *(one.get("thinking") for one in parts)]
    calls = [(one["id"], inner(one, "function")) for one in dicts(message.get("tool_calls"))]
    return Turn(
        role=str(message["role"]),
        text=text,
        thoughts=tuple((str(one), "") for one in thoughts if one),
        calls=tuple(
            Call(id=str(id), name=str(one["name"]), arguments=json.loads(str(one["arguments"])))
            for id, one in calls
        ),
        images=tuple(
            data_of(inner(one, "image_url")["url"]) for one in parts if "image_url" in one
        ),
    )
