"""AWS Bedrock's Converse as a vendor's wire: messages of its event stream."""

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
from tests.stand_ins import bedrock_server as aws

COUNTS: aws.Json = {"inputTokens": USAGE[0], "outputTokens": USAGE[1], "totalTokens": sum(USAGE)}


class BedrockDialect:
    kind = "application/vnd.amazon.eventstream"

    def whole(self, said: Said) -> Json:
        found: list[aws.Json] = []
        if said.thought:
            text = {"text": said.thought, "signature": said.proof}
            found.append({"reasoningContent": {"reasoningText": text}})
        if said.text:
            found.append({"text": said.whole_text})
        found += [aws.used(one.id, one.name, {**one.arguments}) for one in said.calls]
        return {**aws.whole(_finish(said), *found), "usage": COUNTS}

    def streamed(self, said: Said) -> Streamed:
        content = [*aws.thinking(0, said.thought, said.proof)] if said.thought else []
        block = len(content) and 1
        if said.text:
            content += [aws.delta(block, {"text": one}) for one in said.text]
            content.append(aws.stops(block))
            block += 1
        for place, call in enumerate(said.calls, block):
            text = json.dumps(call.arguments) if call.arguments else ""
            content += [
                aws.call_starts(place, call.id, call.name),
                *(aws.delta(place, {"toolUse": {"input": one}}) for one in (text[:1], text[1:])),
                aws.stops(place),
            ]
        stop = aws.event("messageStop", {"stopReason": _finish(said)})
        end = [stop, aws.event("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 7}})]
        return Streamed(before=[aws.starts()], content=content, end=end)

    def received(self, body: Json) -> ReceivedRequest:
        structure = inner(body, "outputConfig", "textFormat", "structure", "jsonSchema")
        schema = structure.get("schema")
        return ReceivedRequest(
            turns=tuple(_turn(one) for one in dicts(body["messages"])),
            tools=tuple(
                str(inner(one, "toolSpec")["name"])
                for one in dicts(inner(body, "toolConfig").get("tools"))
            ),
            schema=json.loads(schema) if isinstance(schema, str) else schema,
        )

    def error(self, status: int, message: str) -> Json:
        return {"message": message}

    def failure(self) -> bytes:
        return aws.exception("modelStreamErrorException", {"message": FAULT})

    def failed(self) -> Json:
        return aws.whole("malformed_model_output", {"text": "half an ans"})


def vectors(body: Json) -> Json:
    return {"embedding": [0.5, -1.0], "inputTextTokenCount": USAGE[0]}


def _finish(said: Said) -> str:
    return "tool_use" if said.calls else "end_turn"


def _turn(turn: Json) -> Turn:
    blocks = dicts(turn["content"])
    used = [inner(one, "toolUse") for one in blocks if "toolUse" in one]
    results = [inner(one, "toolResult") for one in blocks if "toolResult" in one]
    thoughts = [inner(one, "reasoningContent", "reasoningText") for one in blocks]
    return Turn(
        role=str(turn["role"]),
        text="".join(str(one.get("text", "")) for one in blocks),
        thoughts=tuple(
            (str(one["text"]), str(one.get("signature", ""))) for one in thoughts if one
        ),
        calls=tuple(
            Call(id=str(one["toolUseId"]), name=str(one["name"]), arguments=inner(one, "input"))
            for one in used
        ),
        results=tuple(
            (
                str(one["toolUseId"]),
                "".join(str(text.get("text", "")) for text in dicts(one["content"])),
            )
            for one in results
        ),
        images=tuple(
            str(inner(one, "image", "source")["bytes"]) for one in blocks if "image" in one
        ),
    )
