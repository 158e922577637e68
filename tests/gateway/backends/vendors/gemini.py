"""Google's generateContent as a vendor's wire: calls have no ids; the first has a signature."""

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
from tests.stand_ins.gemini_server import error, frame

COUNTS = {
    "promptTokenCount": USAGE[0],
    "candidatesTokenCount": USAGE[1],
    "totalTokenCount": sum(USAGE),
}
Part = dict[str, object]


class GeminiDialect:
    kind = "text/event-stream"

    def whole(self, said: Said) -> Json:
        text: list[Part] = [{"text": said.whole_text}] if said.text else []
        parts = [*_thought(said), *text, *_used(said)]
        return {**frame(*parts, finishReason="STOP"), "usageMetadata": COUNTS}

    def streamed(self, said: Said) -> Streamed:
        texts: list[Part] = [{"text": one} for one in said.text]
        return Streamed(
            content=[_event(frame(one)) for one in (*_thought(said), *texts, *_used(said))],
            end=[_event({**frame({"text": ""}, finishReason="STOP"), "usageMetadata": COUNTS})],
        )

    def received(self, body: Json) -> ReceivedRequest:
        declared = [dicts(one.get("functionDeclarations")) for one in dicts(body.get("tools"))]
        return ReceivedRequest(
            turns=tuple(_turn(one) for one in dicts(body["contents"])),
            tools=tuple(str(one["name"]) for tool in declared for one in tool),
            schema=inner(body, "generationConfig").get("responseJsonSchema"),
        )

    def error(self, status: int, message: str) -> Json:
        return error(status, "SOME_ERROR", message)

    def failure(self) -> bytes:
        return _event(error(503, "UNAVAILABLE", FAULT))

    def failed(self) -> Json:
        return frame({"text": "half an ans"}, finishReason="MALFORMED_FUNCTION_CALL")


def vectors(body: Json) -> Json:
    return {"embeddings": [{"values": [0.5, -1.0]} for _ in dicts(body["requests"])]}


def _event(body: Json) -> bytes:
    return f"data: {json.dumps(body)}\r\n\r\n".encode()


def _thought(said: Said) -> list[Part]:
    return [{"text": said.thought, "thought": True}] if said.thought else []


def _used(said: Said) -> list[Part]:
    found: list[Part] = []
    for one in said.calls:
        proof = {"thoughtSignature": one.proof} if one.proof else {}
        found.append({"functionCall": {"name": one.name, "args": one.arguments}, **proof})
    return found


def _turn(turn: Json) -> Turn:
    parts = dicts(turn["parts"])
    used = [(inner(one, "functionCall"), one) for one in parts if "functionCall" in one]
    results = [inner(one, "functionResponse") for one in parts if "functionResponse" in one]
    return Turn(
        role=str(turn["role"]),
        text="".join(str(one.get("text", "")) for one in parts if not one.get("thought")),
        thoughts=tuple((str(one["text"]), "") for one in parts if one.get("thought")),
        calls=tuple(
            Call(
                id=str(one.get("id", "")),
                name=str(one["name"]),
                arguments=inner(one, "args"),
                proof=str(part.get("thoughtSignature", "")),
            )
            for one, part in used
        ),
        results=tuple((str(one.get("id", "")), _given(inner(one, "response"))) for one in results),
        images=tuple(str(inner(one, "inlineData")["data"]) for one in parts if "inlineData" in one),
    )


def _given(response: Json) -> str:
    """What a function gave, under either of the names that Google's clients use."""
    return str(response.get("result", response.get("output", "")))
