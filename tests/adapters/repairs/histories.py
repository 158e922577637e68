"""Conversations with calls of functions, as each API writes them."""

from collections.abc import Sequence
from typing import cast

import httpx

from tests.adapters.repairs.one_of_each import Json, Rig

SURFACES = ("chat", "messages", "responses")
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}


async def converse(rig: Rig, surface: str, model: str, turns: Sequence[object]) -> httpx.Response:
    """Send a conversation.

    turns: a text of the user; a list of ids, which the model calls; a pair of an id and the result.
    """
    if surface == "chat":
        tools: list[Json] = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
        return await rig.chat(model, tools=tools, messages=[_chat(one) for one in turns])
    if surface == "messages":
        blocks = [_blocks(one) for one in turns]
        offered = [{"name": "f", "input_schema": SCHEMA}]
        return await rig.messages(model, tools=offered, messages=blocks)
    items = [item for one in turns for item in _items(one)]
    functions = [{"type": "function", "name": "f", "parameters": SCHEMA}]
    return await rig.responses(model, tools=functions, input=items)


def _chat(one: object) -> Json:
    if isinstance(one, str):
        return {"role": "user", "content": one}
    if isinstance(one, list):
        calls: list[Json] = [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for id in cast("list[str]", one)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    id, result = cast("tuple[str, str]", one)
    return {"role": "tool", "tool_call_id": id, "content": result}


def _blocks(one: object) -> Json:
    if isinstance(one, str):
        return {"role": "user", "content": one}
    if isinstance(one, list):
        calls = [
            {"type": "tool_use", "id": id, "name": "f", "input": dict[str, object]()}
            for id in cast("list[str]", one)
        ]
        return {"role": "assistant", "content": calls}
    id, result = cast("tuple[str, str]", one)
    block = {"type": "tool_result", "tool_use_id": id, "content": result}
    return {"role": "user", "content": [block]}


def _items(one: object) -> list[Json]:
    if isinstance(one, str):
        return [{"type": "message", "role": "user", "content": one}]
    if isinstance(one, list):
        return [
            {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}
            for id in cast("list[str]", one)
        ]
    id, result = cast("tuple[str, str]", one)
    return [{"type": "function_call_output", "call_id": id, "output": result}]


def calls_and_results(body: Json) -> list[str]:
    """Return what a body of OpenAI's dialects says of calls, in order.

    `call ID` and `result ID TEXT` of functions, and of others `user TEXT`.
    """
    found: list[str] = []
    for one in cast("list[Json]", body.get("messages") or body.get("input")):
        match one.get("type") or one["role"]:
            case "assistant":
                calls = cast("list[Json]", one.get("tool_calls") or [])
                found += [f"call {call['id']}" for call in calls]
            case "tool":
                found.append(f"result {one['tool_call_id']} {one['content']}")
            case "function_call":
                found.append(f"call {one['call_id']}")
            case "function_call_output":
                found.append(f"result {one['call_id']} {one['output']}")
            case _:
                found.append(f"{one['role']} {one['content']}")
    return found
