"""Conversations with calls of tools, in the words of each of the gateway's APIs."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from tests.gateway.backends.field.desk import Json, Surface

EMPTY: Json = {"type": "object", "properties": {}}


def tool(surface: Surface, name: str = "f", schema: Json = EMPTY) -> Json:
    """A function that the client offers."""
    if surface == "messages":
        return {"name": name, "description": "d", "input_schema": schema}
    function: Json = {"name": name, "description": "d", "parameters": schema}
    if surface == "responses":
        return {"type": "function", **function}
    return {"type": "function", "function": function}


def said(surface: Surface, *messages: tuple[str, object]) -> Json:
    """A conversation of roles and contents."""
    turns = [{"role": role, "content": content} for role, content in messages]
    return {"input" if surface == "responses" else "messages": turns}


def with_calls(
    surface: Surface,
    calls: Mapping[str, str],
    results: Sequence[tuple[str, str]] | None = None,
    after: str = "go on",
) -> Json:
    """A user's message, calls of the tool `f`, their results, and the user again.

    calls: arguments as JSON by id. results: texts by id; None: "r" for each call. after: the user's
    last message, "" for none.
    """
    given = [(one, "r") for one in calls] if results is None else results
    body = {"chat": _chat, "messages": _messages, "responses": _responses}[surface](calls, given)
    if after and surface == "messages" and given:
        content = cast("list[object]", body[-1]["content"])
        body[-1]["content"] = [*content, {"type": "text", "text": after}]
    elif after:
        body.append({"role": "user", "content": after})
    field = "input" if surface == "responses" else "messages"
    return {field: body, "tools": [tool(surface)]}


def _chat(calls: Mapping[str, str], results: Sequence[tuple[str, str]]) -> list[dict[str, object]]:
    made = [
        {"id": one, "type": "function", "function": {"name": "f", "arguments": arguments}}
        for one, arguments in calls.items()
    ]
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": made},
        *({"role": "tool", "tool_call_id": one, "content": text} for one, text in results),
    ]


def _messages(
    calls: Mapping[str, str], results: Sequence[tuple[str, str]]
) -> list[dict[str, object]]:
    made = [
        {"type": "tool_use", "id": one, "name": "f", "input": json.loads(arguments)}
        for one, arguments in calls.items()
    ]
    given = [{"type": "tool_result", "tool_use_id": one, "content": text} for one, text in results]
    turns: list[dict[str, object]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": made},
    ]
    return [*turns, {"role": "user", "content": given}] if given else turns


def _responses(
    calls: Mapping[str, str], results: Sequence[tuple[str, str]]
) -> list[dict[str, object]]:
    return [
        {"role": "user", "content": "hi"},
        *(
            {"type": "function_call", "call_id": one, "name": "f", "arguments": arguments}
            for one, arguments in calls.items()
        ),
        *(
            {"type": "function_call_output", "call_id": one, "output": text}
            for one, text in results
        ),
    ]
