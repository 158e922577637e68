"""A fake of Google's API on loopback: chats, streams in CRLF frames, calls, failures, vectors.

It enforces Gemini 3's rules for a conversation: every call must be answered in the next turn, by
its name, and a turn's first call must have the signature with which it was returned.
"""

import json
from collections.abc import Sequence
from typing import cast

from tests.stand_ins.provider import Answer, Received

Json = dict[str, object]

FAILING = "fail at once"
BLOCKED = "say what must not be said"
MALFORMED = "call it wrongly"
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="
TEXT_SIGNATURE = "c2lnbmVkIHRleHQ="
MODEL_VERSION = "gemini-3-flash-preview-01"
COUNTS = {
    "promptTokenCount": 11,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 7,
    "cachedContentTokenCount": 4,
    "totalTokenCount": 23,
}


async def gemini(request: Received, answer: Answer) -> None:
    """Answers like Google, at both of its APIs; see `Provider`."""
    path, body = request.path, request.json
    if "embed" in path.lower():
        texts = cast("list[Json]", body["requests"])
        await answer.json({"embeddings": [{"values": [0.5, -1.0]} for _ in texts]})
        return
    text = said_last(body)
    if FAILING in text:
        await answer.json(error(429, "RESOURCE_EXHAUSTED", retry="0.01s"), 429)
        return
    fault = fault_of(cast("list[Json]", body["contents"]))
    if fault:
        await answer.json(error(400, "INVALID_ARGUMENT", fault), 400)
        return
    frames = frames_for(body, text)
    if not path.endswith("?alt=sse"):
        await answer.json(whole(frames))
        return
    await answer.begin_stream()
    for one in frames:
        data = json.dumps(one, ensure_ascii=False).encode()
        await answer.chunk(b"data: " + data + b"\r\n\r\n")
    await answer.raw(b"0\r\n\r\n")


def frames_for(body: Json, text: str) -> Sequence[Json]:
    """Answer with calls if there are tools but no result, else with reasoning and text."""
    if BLOCKED in text:
        return ({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}},)
    if MALFORMED in text:
        return (frame(finishReason="MALFORMED_FUNCTION_CALL"),)
    if body.get("tools") and not has_results(body):
        calls: list[Json] = [
            {"functionCall": {"name": "weather", "args": {"at": place}}} for place in ("A", "B")
        ]
        calls[0]["thoughtSignature"] = SIGNATURE
        last = {**frame({"text": ""}, finishReason="STOP"), "usageMetadata": COUNTS}
        return frame(*calls[:1]), frame(*calls[1:]), last
    return (
        {**frame({"text": "Hm.", "thought": True}), "usageMetadata": {"promptTokenCount": 11}},
        frame({"text": "Hel"}),
        {
            **frame({"text": "lo 🌍", "thoughtSignature": TEXT_SIGNATURE}, finishReason="STOP"),
            "usageMetadata": COUNTS,
        },
    )


def frame(*parts: Json, **fields: object) -> Json:
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **fields}],
        "modelVersion": MODEL_VERSION,
        "responseId": "aB3_xyZ-9",
    }


def error(code: int, word: str, message: str = "Quota exceeded.", retry: str = "") -> Json:
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    details = [{"@type": kind, "retryDelay": retry}] if retry else []
    return {"error": {"code": code, "message": message, "status": word, "details": details}}


def whole(frames: Sequence[Json]) -> Json:
    """Return the frames of a stream as one answer."""
    if "candidates" not in frames[0]:
        return frames[0]
    told = [cast("list[Json]", one["candidates"])[0] for one in frames]
    parts = [
        part for one in told for part in cast("list[Json]", cast("Json", one["content"])["parts"])
    ]
    last = {**told[-1], "content": {"role": "model", "parts": parts}}
    return {**frames[-1], "candidates": [last]}


def parts_of(content: Json) -> list[Json]:
    return cast("list[Json]", content["parts"])


def said_last(body: Json) -> str:
    return "".join(str(part.get("text", "")) for part in parts_of(contents(body)[-1]))


def contents(body: Json) -> list[Json]:
    return cast("list[Json]", body["contents"])


def has_results(body: Json) -> bool:
    return any("functionResponse" in part for one in contents(body) for part in parts_of(one))


def fault_of(turns: Sequence[Json]) -> str:
    """Return Google's error for a conversation, "" if it is valid."""
    for place, turn in enumerate(turns):
        calls = [part for part in parts_of(turn) if "functionCall" in part]
        if not calls:
            continue
        if calls[0].get("thoughtSignature") != SIGNATURE:
            return "Function call is missing a thought_signature."
        answers = parts_of(turns[place + 1]) if place + 1 < len(turns) else []
        given = [part["functionResponse"] for part in answers if "functionResponse" in part]
        names = [cast("Json", one).get("name") for one in given]
        if names != [cast("Json", part["functionCall"])["name"] for part in calls]:
            return "The number of function response parts must equal the function call parts."
    return ""
