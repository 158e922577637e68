"""OpenAI's Responses API as a vendor's wire; the official client's types check every event."""

import json
from collections.abc import Mapping, Sequence
from typing import cast, get_args

import pydantic
from openai.types.responses import Response, ResponseStreamEvent

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

EVENTS = {
    get_args(kind.model_fields["type"].annotation)[0]: kind
    for kind in cast(
        "tuple[type[pydantic.BaseModel], ...]", get_args(get_args(ResponseStreamEvent)[0])
    )
}
"""The official client's event types, by their names."""

NONE: list[object] = []

COUNTS: Json = {
    "input_tokens": USAGE[0],
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": USAGE[1],
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": sum(USAGE),
}


class EventStream:
    """Builds the events of one answer, numbered and checked."""

    def __init__(self) -> None:
        self._number = 0

    def event(self, kind: str, **members: object) -> bytes:
        body = {"type": kind, **members, "sequence_number": self._number}
        self._number += 1
        EVENTS[kind].model_validate(body)
        return sse(body, kind)

    def item(
        self, index: int, item: Json, pieces: Sequence[str], encrypted: str = ""
    ) -> list[bytes]:
        """The events of a message, reasoning or call; those before its first delta with it.

        pieces: its text or arguments.
        """
        kind, id = str(item["type"]), item["id"]
        place = {"output_index": index, "item_id": id}
        begun = {**item, "status": "in_progress", **_EMPTY[kind]}
        events = [self.event("response.output_item.added", output_index=index, item=begun)]
        whole = "".join(pieces)
        match kind:
            case "message":
                part = {"type": "output_text", "text": "", "annotations": NONE, "logprobs": NONE}
                at = {**place, "content_index": 0}
                events.append(self.event("response.content_part.added", **at, part=part))
                events += [
                    self.event("response.output_text.delta", **at, delta=one, logprobs=NONE)
                    for one in pieces
                ]
                events.append(
                    self.event("response.output_text.done", **at, text=whole, logprobs=NONE)
                )
                part = {**part, "text": whole}
                events.append(self.event("response.content_part.done", **at, part=part))
            case "reasoning":
                at = {**place, "summary_index": 0}
                part = {"type": "summary_text", "text": ""}
                events.append(self.event("response.reasoning_summary_part.added", **at, part=part))
                events += [
                    self.event("response.reasoning_summary_text.delta", **at, delta=one)
                    for one in pieces
                ]
                events.append(self.event("response.reasoning_summary_text.done", **at, text=whole))
                part = {**part, "text": whole}
                events.append(self.event("response.reasoning_summary_part.done", **at, part=part))
            case "custom_tool_call":
                name = "response.custom_tool_call_input"
                events += [self.event(f"{name}.delta", **place, delta=one) for one in pieces]
                events.append(self.event(f"{name}.done", **place, input=whole))
            case _:
                events += [
                    self.event("response.function_call_arguments.delta", **place, delta=one)
                    for one in pieces
                ]
                events.append(
                    self.event(
                        "response.function_call_arguments.done",
                        **place,
                        name=str(item["name"]),
                        arguments=whole,
                    )
                )
        done = self.event("response.output_item.done", output_index=index, item=item)
        first = next(at for at, one in enumerate(events) if b".delta" in one) + 1
        return [b"".join(events[:first]), *events[first:], done]


_EMPTY: Mapping[str, Json] = {
    "message": {"content": []},
    "reasoning": {"summary": [], "encrypted_content": None},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
}


class ResponsesDialect:
    kind = "text/event-stream"

    def whole(self, said: Said) -> Json:
        body = response(items_of(said))
        Response.model_validate(body)
        return body

    def streamed(self, said: Said) -> Streamed:
        stream = EventStream()
        begun = response([], status="in_progress")
        before = [
            stream.event(f"response.{name}", response=begun) for name in ("created", "in_progress")
        ]
        content = [
            event
            for index, item in enumerate(items_of(said))
            for event in stream.item(index, item, _pieces(item, said))
        ]
        end = stream.event("response.completed", response=response(items_of(said)))
        return Streamed(before=before, content=content, end=[end])

    def received(self, body: Json) -> ReceivedRequest:
        return ReceivedRequest(
            turns=turns_of(body),
            tools=tuple(str(one.get("name", one["type"])) for one in dicts(body.get("tools"))),
            schema=inner(body, "text", "format").get("schema"),
        )

    def error(self, status: int, message: str) -> Json:
        return {"error": {"message": message, "type": "some_error", "param": None, "code": None}}

    def failure(self) -> bytes:
        return EventStream().event("response.failed", response=self.failed())

    def failed(self) -> Json:
        error = {"code": "server_error", "message": FAULT}
        return {**response([], status="failed"), "error": error, "usage": None}


def response(items: Sequence[Json], status: str = "completed", **more: object) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "m1-2026",
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": NONE,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None if status == "in_progress" else COUNTS,
        "metadata": {},
        **more,
    }


def items_of(said: Said) -> list[Json]:
    items: list[Json] = []
    if said.thought:
        items.append(
            {
                "type": "reasoning",
                "id": "rs_7",
                "summary": [{"type": "summary_text", "text": said.thought}],
                "encrypted_content": said.proof,
            }
        )
    if said.text:
        part = {
            "type": "output_text",
            "text": said.whole_text,
            "annotations": NONE,
            "logprobs": NONE,
        }
        items.append(
            {
                "type": "message",
                "id": "msg_7",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        )
    return items + [_call(at, one) for at, one in enumerate(said.calls)]


def _call(at: int, one: Call) -> Json:
    if one.custom:
        return {
            "type": "custom_tool_call",
            "id": f"ctc_{at}",
            "status": "completed",
            "call_id": one.id,
            "name": one.name,
            "input": str(one.arguments["input"]),
        }
    return {
        "type": "function_call",
        "id": f"fc_{at}",
        "status": "completed",
        "call_id": one.id,
        "name": one.name,
        "arguments": json.dumps(one.arguments),
    }


def _pieces(item: Json, said: Said) -> Sequence[str]:
    match item["type"]:
        case "message":
            return said.text
        case "reasoning":
            return (said.thought[:3], said.thought[3:])
        case _:
            text = str(item["input" if "input" in item else "arguments"])
            return (text[:1], text[1:])


def turns_of(body: Json) -> tuple[Turn, ...]:
    """Consecutive items of the model are one turn."""
    given = body["input"]
    items = dicts([{"role": "user", "content": given}] if isinstance(given, str) else given)
    turns: list[Turn] = []
    for one in items:
        turn = _turn(one)
        last = turns[-1] if turns else None
        if last is not None and turn.role == last.role == "assistant" and not last.text:
            turns[-1] = Turn(
                role="assistant",
                text=turn.text,
                thoughts=last.thoughts + turn.thoughts,
                calls=last.calls + turn.calls,
            )
        elif last is not None and turn.role == last.role == "assistant" and turn.calls:
            turns[-1] = Turn(
                role="assistant",
                text=last.text,
                thoughts=last.thoughts,
                calls=last.calls + turn.calls,
            )
        else:
            turns.append(turn)
    return tuple(turns)


def _turn(item: Json) -> Turn:
    match item.get("type", "message"):
        case "reasoning":
            parts = dicts(item["summary"]) or dicts(item.get("content"))
            text = "".join(str(one["text"]) for one in parts)
            return Turn(
                role="assistant", thoughts=((text, str(item.get("encrypted_content") or "")),)
            )
        case "function_call":
            arguments = json.loads(str(item["arguments"]))
            call = Call(id=str(item["call_id"]), name=str(item["name"]), arguments=arguments)
            return Turn(role="assistant", calls=(call,))
        case "custom_tool_call":
            given = {"input": item["input"]}
            call = Call(id=str(item["call_id"]), name=str(item["name"]), arguments=given)
            return Turn(role="assistant", calls=(call,))
        case "function_call_output" | "custom_tool_call_output":
            return Turn(role="tool", results=((str(item["call_id"]), _text(item["output"])),))
        case _:
            parts = dicts(item["content"])
            return Turn(
                role=str(item["role"]),
                text=_text(item["content"]),
                images=tuple(
                    data_of(one["image_url"]) for one in parts if one["type"] == "input_image"
                ),
            )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(one["text"]) for one in dicts(content) if "text" in one)
