"""OpenAI's dialect as a vendor's wire, and vendors with small differences."""

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

COUNTS: Json = dict(
    zip(("prompt_tokens", "completion_tokens", "total_tokens"), (*USAGE, sum(USAGE)), strict=True)
)
DONE = b"data: [DONE]\n\n"


class OpenAIDialect:
    kind = "text/event-stream"

    def whole(self, said: Said) -> Json:
        message = {"role": "assistant", "content": said.whole_text or None, **self._thought(said)}
        if said.calls:
            message["tool_calls"] = [_call(one) for one in said.calls]
        choice = {"index": 0, "message": message, "finish_reason": _finish(said)}
        return {**_head("chat.completion"), "choices": [choice], "usage": COUNTS}

    def streamed(self, said: Said) -> Streamed:
        thought = self._thought(said)
        content = [self._delta(thought)] if thought else []
        content += [self._delta({"content": one}) for one in said.text]
        for index, call in enumerate(said.calls):
            function = inner(_call(call), "function")
            text = str(function["arguments"])
            begun = {**_call(call), "index": index, "function": {**function, "arguments": ""}}
            content.append(self._delta({"tool_calls": [begun]}))
            for half in (text[:1], text[1:]):
                piece = {"index": index, "function": {"arguments": half}}
                content.append(self._delta({"tool_calls": [piece]}))
        return Streamed(
            before=[self._delta({"role": "assistant", "content": ""})],
            content=content,
            end=[*self._ends(_finish(said)), DONE],
        )

    def received(self, body: Json) -> ReceivedRequest:
        form = inner(body, "response_format")
        return ReceivedRequest(
            turns=tuple(_turn(one) for one in dicts(body["messages"])),
            tools=tuple(str(inner(one, "function")["name"]) for one in dicts(body.get("tools"))),
            schema=form.get("value") or inner(form, "json_schema").get("schema"),
        )

    def error(self, status: int, message: str) -> Json:
        return {"error": {"message": message, "type": "some_error", "code": None}}

    def failure(self) -> bytes:
        return sse({"error": {"message": FAULT, "code": 500}})

    def failed(self) -> Json:
        choice = {"index": 0, "message": {"content": "half an ans"}, "finish_reason": "error"}
        return {**_head("chat.completion"), "choices": [choice], "usage": COUNTS}

    def _thought(self, said: Said) -> dict[str, object]:
        """The fields of a message, or of a piece of one, that hold the thought."""
        return {"reasoning_content": said.thought} if said.thought else {}

    def _delta(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse({**_head("chat.completion.chunk"), "choices": [choice]})

    def _ends(self, finish: str) -> list[bytes]:
        """The reason, and the usage in a chunk of its own."""
        usage: Json = {**_head("chat.completion.chunk"), "choices": (), "usage": COUNTS}
        return [self._delta({}, finish), sse(usage)]


def vectors(body: Json) -> Json:
    data = [
        {"object": "embedding", "index": index, "embedding": [0.5, -1.0]}
        for index, _ in enumerate(dicts(body["input"]))
    ]
    return {"object": "list", "model": "e", "data": data, "usage": COUNTS}


class CountedAtTheEnd(OpenAIDialect):
    """Vendors that put the usage, unasked, into the chunk that ends a choice."""

    def _ends(self, finish: str) -> list[bytes]:
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": finish}
        return [sse({**_head("chat.completion.chunk"), "choices": [choice], "usage": COUNTS})]


class MistralDialect(CountedAtTheEnd):
    """Thoughts are chunks of the content, in whole messages and in pieces."""

    def whole(self, said: Said) -> Json:
        return _with_parts(super().whole(said), said, self._thought(said))

    def _thought(self, said: Said) -> dict[str, object]:
        if not said.thought:
            return {}
        texts = [{"type": "text", "text": said.thought}]
        return {"content": [{"type": "thinking", "thinking": texts}]}


class DatabricksDialect(CountedAtTheEnd):
    """Thoughts are parts of the content with a signature, and errors have a code in words."""

    def whole(self, said: Said) -> Json:
        return _with_parts(super().whole(said), said, self._thought(said))

    def error(self, status: int, message: str) -> Json:
        return {"error_code": "BAD_REQUEST", "message": message}

    def _thought(self, said: Said) -> dict[str, object]:
        if not said.thought:
            return {}
        summary = {"type": "summary_text", "text": said.thought, "signature": said.proof}
        return {"content": [{"type": "reasoning", "summary": [summary]}]}


class MindIEDialect(CountedAtTheEnd):
    """A failure is JSON without a `data:` before it, and a whole message always lists calls."""

    def error(self, status: int, message: str) -> Json:
        return {"error": message, "error_type": "Incomplete Generation"}

    def failure(self) -> bytes:
        return json.dumps({"error": FAULT, "error_type": "Incomplete Generation"}).encode()

    def _thought(self, said: Said) -> dict[str, object]:
        return {**super()._thought(said), "tool_calls": []} if said.thought else {}


def _with_parts(answer: Json, said: Said, thought: Json) -> Json:
    """A whole answer whose content is the thought's part and the text's, where it thinks."""
    if thought:
        (choice,) = dicts(answer["choices"])
        parts = dicts(thought["content"])
        inner(choice, "message")["content"] = [*parts, {"type": "text", "text": said.whole_text}]
    return answer


def _head(kind: str) -> Json:
    return {"id": "c1", "object": kind, "created": 1_700_000_000, "model": "m1-2026"}


def _finish(said: Said) -> str:
    return "tool_calls" if said.calls else "stop"


def _call(one: Call) -> Json:
    function = {"name": one.name, "arguments": json.dumps(one.arguments)}
    return {"id": one.id, "type": "function", "function": function}


def _turn(message: Json) -> Turn:
    content = message.get("content")
    parts = dicts(content)
    texts = [str(one["text"]) for one in parts if one["type"] == "text"]
    text = content if isinstance(content, str) else "".join(texts)
    if message["role"] == "tool":
        return Turn(role="tool", results=((str(message["tool_call_id"]), text),))
    return Turn(
        role=str(message["role"]),
        text=text,
        thoughts=_thoughts(message, parts),
        calls=tuple(_called(one) for one in dicts(message.get("tool_calls"))),
        images=tuple(_image(one["image_url"]) for one in parts if one["type"] == "image_url"),
    )


def _image(field: object) -> str:
    """MindIE and Mistral take the address without an object around it, too."""
    return data_of(field if isinstance(field, str) else inner(field)["url"])


def _thoughts(message: Json, parts: list[dict[str, object]]) -> tuple[tuple[str, str], ...]:
    plain = message.get("reasoning_content")
    texts = [
        text for one in parts for text in (*dicts(one.get("summary")), *dicts(one.get("thinking")))
    ]
    readable = [one for one in texts if "text" in one]
    found = [(str(one["text"]), str(one.get("signature", ""))) for one in readable]
    return (((str(plain), ""),) if plain else ()) + tuple(found)


def _called(call: Json) -> Call:
    function = inner(call, "function")
    arguments = json.loads(str(function["arguments"]))
    return Call(id=str(call["id"]), name=str(function["name"]), arguments=arguments)
