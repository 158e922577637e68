"""A client of Ollama's API that keeps a conversation, in the three ways of `clients.py`."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

import ollama

from tests.gateway.backends.vendors.dialect import Json, dicts, inner
from tests.switching.reply import Echo, NamesModelInBody, Parameters, Reply


class OllamaClient(NamesModelInBody):
    """Ollama's `/api/chat`. Its Python client has no ids of calls, so results go by names."""

    path = "/api/chat"
    proves = False

    def user(self, text: str, image: str = "") -> Json:
        turn = {"role": "user", "content": text}
        return {**turn, "images": [image]} if image else turn

    def results(self, reply: Reply, texts: Sequence[str]) -> list[Json]:
        return [
            {
                "role": "tool",
                "content": text,
                **({"tool_call_id": id} if id else {"tool_name": name}),
            }
            for (id, name, _), text in zip(reply.calls, texts, strict=True)
        ]

    def body(self, conversation: Sequence[Json], functions: Parameters) -> Json:
        tools = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in functions.items()
        ]
        options = {"num_predict": 2000}
        found: Json = {"messages": conversation, "options": options}
        return {**found, "tools": tools} if tools else found

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply:
        lines = [json.loads(one) for one in answer.splitlines()] if stream else [json.loads(answer)]
        message = _together([inner(one, "message") for one in lines])
        calls = dicts(message.get("tool_calls"))
        kept: Mapping[str, object] = message
        if echo == "sdk":
            kept = ollama.Message.model_validate(message).model_dump(exclude_none=True)
        elif echo == "plain":
            named = [{"function": {"name": f["name"], "arguments": f["arguments"]}}
                     for f in (inner(one, "function") for one in calls)]  # fmt: skip
            kept = {"role": "assistant", "content": message["content"]}
            kept |= {"tool_calls": named} if named else {}
        return Reply(
            items=[kept],
            text=str(message["content"]),
            calls=[
                (
                    str(one["id"]) if echo == "everything" else "",
                    str(inner(one, "function")["name"]),
                    inner(inner(one, "function"), "arguments"),
                )
                for one in calls
            ],
        )


def _together(pieces: Sequence[Json]) -> dict[str, object]:
    """Join texts and lists, as clients of this API do."""
    whole: dict[str, object] = {}
    for piece in pieces:
        for name, value in piece.items():
            known = whole.get(name)
            if name != "role" and isinstance(known, str):
                whole[name] = known + str(value)
            elif isinstance(known, list):
                whole[name] = [*cast("list[object]", known), *cast("list[object]", value)]
            else:
                whole[name] = value
    return whole
