"""Answers of Gemini, OpenAI's Responses API, Cohere and Ollama, each with what only it has.

The formats are those of the recordings in tests/adapters/fixtures and of the vendors' documents.
"""

import json
import zlib
from collections.abc import Sequence
from typing import Final

from strowger_gateway.schemas.messages import GEMINI, OPENAI
from tests.gateway.backends.vendors.dialect import Json, dicts, inner, sse
from tests.gateway.backends.vendors.responses import EventStream, response
from tests.stand_ins.gemini_server import frame
from tests.switching.chat_answers import PIXEL, SAID, calls_with
from tests.switching.claude_answers import WHERE
from tests.switching.scene import CALLS, CITED, Scene, halves, proof

Part = dict[str, object]

GOOGLE_COUNTS: Final[Json] = {
    "promptTokenCount": 31,
    "candidatesTokenCount": 24,
    "totalTokenCount": 55,
}


def gemini() -> list[Scene]:
    """A signature comes with a call, or with a text; code that ran and images are parts."""
    signed, closing, thought = proof("gemini call"), proof("gemini text"), "Gemini ponders."
    (first, given), (second, _) = CALLS
    thinking: Part = {"text": thought, "thought": True}
    calls: list[Part] = [
        {"functionCall": {"name": first, "args": given}, "thoughtSignature": signed},
        {"functionCall": {"id": "fc-7", "name": second}},
    ]
    code: list[Part] = [
        {"executableCode": {"language": "PYTHON", "code": "print(19)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "19\n"}},
    ]
    grounds = {"groundingChunks": [{"web": {"uri": WHERE, "title": "Zürich"}}]}
    drawn: Part = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    asked: list[Part] = [thinking, {"text": SAID}, *calls]
    told: list[Part] = [thinking, {"text": "Hello 🌍.", "thoughtSignature": closing}]
    found: list[Part] = [*code, {"text": CITED}]
    shown: list[Part] = [{"text": "There it is."}, drawn]
    return [
        Scene(
            name="calls",
            whole=_google(asked),
            streamed=_frames(asked),
            text=SAID,
            thought=thought,
            calls=CALLS,
            proofs={signed: GEMINI},
        ),
        Scene(
            name="thought",
            whole=_google(told),
            streamed=_frames(told),
            text="Hello 🌍.",
            thought=thought,
            proofs={closing: GEMINI},
        ),
        Scene(
            name="cited",
            whole=_google(found, groundingMetadata=grounds),
            streamed=_frames(found, groundingMetadata=grounds),
            text=CITED,
            own=("print(19)", "executableCode"),
            more=(WHERE,),
        ),
        Scene(
            name="pictured",
            whole=_google(shown),
            streamed=_frames(shown),
            text="There it is.",
            more=(PIXEL,),
        ),
    ]


def _google(parts: list[Part], **more: object) -> Json:
    whole = {**frame(*parts, finishReason="STOP"), "usageMetadata": GOOGLE_COUNTS}
    for candidate in dicts(whole["candidates"]):
        candidate |= more
    return whole


def _frames(parts: list[Part], **more: object) -> list[bytes]:
    pieces: list[Part] = []
    for part in parts:
        plain = set(part) == {"text"}
        texts = halves(str(part["text"])) if plain else []
        pieces += [{**part, "text": half} for half in texts] if plain else [part]
    last = _google([{"text": ""}], **more)
    return [f"data: {json.dumps(one)}\r\n\r\n".encode() for one in (*map(frame, pieces), last)]


def responses() -> list[Scene]:
    """Items have ids; reasoning is encrypted; searches and images are the server's tools."""
    sealed, alone = proof("responses reasoning"), proof("responses without summary")
    summary = [{"type": "summary_text", "text": "OpenAI ponders."}]
    thinking = {
        "type": "reasoning",
        "id": "rs_68af4030baa48193b0b43b4c2a176a1a",
        "summary": summary,
        "encrypted_content": sealed,
    }
    silent = {**thinking, "id": "rs_68af4030baa48193", "summary": (), "encrypted_content": alone}
    calls = [
        {
            "type": "function_call",
            "id": f"fc_68af40337e588193{place}",
            "status": "completed",
            "call_id": call["id"],
            "name": inner(call, "function")["name"],
            "arguments": inner(call, "function")["arguments"],
        }
        for place, call in enumerate(
            calls_with("call_Rs1kT3vQ7mXw9ZbD2fGh", "call_Rs4nL6pB8cJy0AeU5iKo")
        )
    ]
    note = {
        "type": "url_citation",
        "url": WHERE,
        "title": "Zürich",
        "start_index": 0,
        "end_index": 16,
    }
    action = {"type": "search", "query": "weather Zürich", "queries": ["weather Zürich"]}
    search = {
        "type": "web_search_call",
        "id": "ws_67ccf18ef5fc8190",
        "status": "completed",
        "action": action,
    }
    drawn = {
        "type": "image_generation_call",
        "id": "ig_67cc0f2a1b8c",
        "status": "completed",
        "result": PIXEL,
    }
    asked = [thinking, _spoken(SAID), *calls]
    told = [silent, _spoken("Hello 🌍.")]
    found = [search, _spoken(CITED, note)]
    shown = [drawn, _spoken("There it is.")]
    return [
        Scene(
            name="calls",
            whole=response(asked),
            streamed=_item_events(asked),
            text=SAID,
            thought="OpenAI ponders.",
            calls=CALLS,
            proofs={sealed: OPENAI},
        ),
        Scene(
            name="thought",
            whole=response(told),
            streamed=_item_events(told),
            text="Hello 🌍.",
            proofs={alone: OPENAI},
            sealed=(alone,),
        ),
        Scene(
            name="cited",
            whole=response(found),
            streamed=_item_events(found),
            text=CITED,
            own=("ws_67ccf18ef5fc8190", "web_search_call"),
            more=(WHERE,),
        ),
        Scene(
            name="pictured",
            whole=response(shown),
            streamed=_item_events(shown),
            text="There it is.",
            own=("image_generation_call",),
            more=(PIXEL,),
        ),
    ]


def _spoken(text: str, *notes: Json) -> Json:
    part = {"type": "output_text", "text": text, "annotations": notes, "logprobs": ()}
    return {
        "type": "message",
        "id": f"msg_68af4033ad0481938b2d2b2c{zlib.crc32(text.encode()):08x}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
        "phase": "final_answer",
    }


def _item_events(items: Sequence[Json]) -> list[bytes]:
    stream = EventStream()
    begun = response([], status="in_progress")
    events = [
        stream.event(f"response.{name}", response=begun) for name in ("created", "in_progress")
    ]
    for index, item in enumerate(items):
        pieces = _texts(item)
        if pieces:
            events += stream.item(index, item, pieces)
            continue
        kept = {name: value for name, value in item.items() if name != "result"}
        unfinished = {**kept, "status": "in_progress"}
        if item["type"] == "image_generation_call":
            unfinished["result"] = None
        events.append(
            stream.event("response.output_item.added", output_index=index, item=unfinished)
        )
        events.append(stream.event("response.output_item.done", output_index=index, item=item))
    return [*events, stream.event("response.completed", response=response(items))]


def _texts(item: Json) -> list[str]:
    """Return the pieces of an item that is streamed in pieces."""
    match item["type"]:
        case "message":
            (part,) = dicts(item["content"])
            return halves(str(part["text"]))
        case "reasoning":
            return [half for one in dicts(item["summary"]) for half in halves(str(one["text"]))]
        case "function_call":
            return halves(str(item["arguments"]))
        case _:
            return []


def cohere() -> list[Scene]:
    """Reasoning before calls is a plan; citations are members of the message."""
    calls = calls_with("weather_5n3q7k1x2b9d", "clock_8w2m4r6t0z3v")
    plan = "Cohere ponders."
    asked: Part = {"role": "assistant", "tool_plan": plan, "tool_calls": calls}
    thinking: Part = {"type": "thinking", "thinking": plan}
    hello: Part = {"type": "text", "text": "Hello 🌍."}
    told: Part = {"role": "assistant", "content": [thinking, hello]}
    citation = {
        "start": 6,
        "end": 16,
        "text": "19 degrees",
        "sources": [{"type": "document", "id": "doc:0", "document": {"id": "doc:0", "at": WHERE}}],
        "type": "TEXT_CONTENT",
    }
    text: Part = {"type": "text", "text": CITED}
    found: Part = {"role": "assistant", "content": [text], "citations": [citation]}
    return [
        Scene(
            name="calls",
            whole=_coheres(asked),
            streamed=_steps(asked),
            text="",
            thought=plan,
            calls=CALLS,
        ),
        Scene(
            name="thought",
            whole=_coheres(told),
            streamed=_steps(told),
            text="Hello 🌍.",
            thought=plan,
        ),
        Scene(
            name="cited",
            whole=_coheres(found),
            streamed=_steps(found),
            text=CITED,
            own=("TEXT_CONTENT",),
            more=(WHERE,),
        ),
    ]


def _coheres(message: Part) -> Json:
    reason = "TOOL_CALL" if "tool_calls" in message else "COMPLETE"
    usage = {"tokens": {"input_tokens": 120.0, "output_tokens": 17.0}}
    return {"id": "9c1f", "finish_reason": reason, "message": message, "usage": usage}


def _steps(message: Part) -> list[bytes]:
    def step(kind: str, index: int, fields: Json) -> bytes:
        return sse({"type": kind, "index": index, "delta": {"message": fields}}, kind)

    steps = [sse({"type": "message-start", "id": "9c1f", "delta": {"message": {}}})]
    plan = halves(str(message.get("tool_plan", "")))
    steps += [step("tool-plan-delta", 0, {"tool_plan": half}) for half in plan]
    for index, part in enumerate(dicts(message.get("content"))):
        kind = str(part["type"])
        steps.append(step("content-start", index, {"content": {**part, kind: ""}}))
        steps += [
            step("content-delta", index, {"content": {kind: half}})
            for half in halves(str(part[kind]))
        ]
        steps.append(step("content-end", index, {}))
    for index, note in enumerate(dicts(message.get("citations"))):
        steps.append(step("citation-start", index, {"citations": note}))
        steps.append(step("citation-end", index, {}))
    for index, call in enumerate(dicts(message.get("tool_calls"))):
        function = inner(call, "function")
        begun = {**call, "function": {**function, "arguments": ""}}
        steps.append(step("tool-call-start", index, {"tool_calls": begun}))
        steps += [
            step("tool-call-delta", index, {"tool_calls": {"function": {"arguments": half}}})
            for half in halves(str(function["arguments"]))
        ]
        steps.append(step("tool-call-end", index, {}))
    reason, usage = _coheres(message)["finish_reason"], _coheres(message)["usage"]
    end = {"finish_reason": reason, "usage": usage}
    return [*steps, sse({"type": "message-end", "delta": end}, "message-end")]


def ollama() -> list[Scene]:
    """Reasoning is `thinking`; calls have no ids, and arguments are objects."""
    thinking = {"thinking": "Ollama ponders."}
    calls = [{"function": {"name": name, "arguments": given}} for name, given in CALLS]
    asked = {"content": SAID, **thinking, "tool_calls": calls}
    told = {"content": "Hello 🌍.", **thinking}
    return [
        Scene(
            name="calls",
            whole=_last(asked),
            streamed=_lines(asked),
            text=SAID,
            thought="Ollama ponders.",
            calls=CALLS,
        ),
        Scene(
            name="thought",
            whole=_last(told),
            streamed=_lines(told),
            text="Hello 🌍.",
            thought="Ollama ponders.",
        ),
    ]


def _line(message: Json) -> Json:
    return {
        "model": "gpt-oss:20b",
        "created_at": "2026-03-01T10:20:30.123456780Z",
        "message": {"role": "assistant", **message},
        "done": False,
    }


def _last(message: Json) -> Json:
    counts = {"prompt_eval_count": 31, "eval_count": 24}
    return {**_line(message), "done": True, "done_reason": "stop", **counts}


def _lines(message: Json) -> list[bytes]:
    pieces: list[Json] = [
        {"content": "", "thinking": half} for half in halves(str(message["thinking"]))
    ]
    pieces += [{"content": half} for half in halves(str(message["content"]))]
    pieces += [{"content": "", "tool_calls": [one]} for one in dicts(message.get("tool_calls"))]
    lines = [*map(_line, pieces), _last({"content": ""})]
    return [json.dumps(one).encode() + b"\n" for one in lines]
