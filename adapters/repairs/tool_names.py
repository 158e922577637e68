"""Names of functions in the alphabet and length that a vendor takes, and back in the answer.

MCP servers name tools with dots, colons and spaces, and agents put the server's name before them.
A name that the vendor takes is sent as it is; any other is cleaned, shortened, and ends in a hash
of the whole name, so that equal names stay equal over all turns, and different ones different.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final, cast

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import (
    json_of,
    read_json,
    renamed_choice,
    renamed_tool,
    rewritten,
    with_calls,
)
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, Undo
from strowger_gateway.schemas.content_facts import CALLS, TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message, ToolCall, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest, Request

DIGITS: Final = 8
"""Hexadecimal digits of the hash at the end of a changed name."""

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_BEGINS: Final = re.compile(r"[A-Za-z_]")


def tool_names(source: str, allowed: str, longest: int = 64) -> Repair:
    r"""Return the rule for a vendor with these names.

    source: where the vendor documents or reports the limit. allowed: a regular expression that all
    names match. longest: characters of a name.
    """
    pattern = re.compile(allowed)

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        names = {
            name: _sent(name, longest) for name in _names(request) if not pattern.fullmatch(name)
        }
        return _renamed(request, names) if names else None

    return Repair(
        name="tool_name",
        about="sends functions under names that the vendor takes; the answer has the client's",
        source=source,
        facts=TOOLS | CALLS,
        apply=apply,
        example=_EXAMPLE,
        light=True,
    )


def _sent(name: str, longest: int) -> str:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
    clean = _OTHER.sub("_", name)
    if not _BEGINS.match(clean):
        clean = f"_{clean}"
    return f"{clean[: longest - DIGITS - 1]}_{digest}"


def _names(request: ChatRequest) -> Iterator[str]:
    """Yield the names of all functions that the request offers, or that were called."""
    for tool in request.tools or ():
        if isinstance(tool, FunctionTool):
            yield tool.name
    for one in request.messages:
        for call in one.tool_calls:
            yield call.name
        if one.name and one.role in ("tool", "function"):
            yield one.name


def _renamed(request: ChatRequest, names: Mapping[str, str]) -> Repaired:
    changed: dict[str, None] = {}
    changes: dict[str, object] = {}
    if any(isinstance(tool, FunctionTool) and tool.name in names for tool in request.tools or ()):
        changed["tools[].function.name"] = None
        changes["tools"] = tuple(
            [
                renamed_tool(tool, names[tool.name])
                if isinstance(tool, FunctionTool) and tool.name in names
                else tool
                for tool in request.tools or ()
            ]
        )
    messages = tuple([_message(one, names) for one in request.messages])
    if any(new is not old for new, old in zip(messages, request.messages, strict=True)):
        changed["messages[].tool_calls[].function.name"] = None
        changes["messages"] = messages
    choice = request.tool_choice
    if isinstance(choice, ToolChoice):
        changes["tool_choice"] = _choice(choice, names)
    return Repaired(
        request=replace(request, **changes),
        changed=tuple(changed),
        undo=Undo(tools={sent: name for name, sent in names.items()}),
    )


def _message(one: Message, names: Mapping[str, str]) -> Message:
    if one.name and one.role in ("tool", "function") and one.name in names:
        one = rewritten(one, {"name": names[one.name]}, name=names[one.name])
    if not any(call.name in names for call in one.tool_calls):
        return one
    calls = [replace(call, name=names.get(call.name, call.name)) for call in one.tool_calls]
    return with_calls(one, tuple(calls))


def _choice(choice: ToolChoice, names: Mapping[str, str]) -> ToolChoice:
    if choice.name:
        return renamed_choice(choice, names[choice.name]) if choice.name in names else choice
    if choice.mode == "opaque" and isinstance(choice.raw, Raw):
        return replace(choice, raw=json_of(_inside(read_json(choice.raw), names)))
    return choice


def _inside(value: object, names: Mapping[str, str]) -> object:
    """Return a choice among several tools with the names that are sent."""
    if isinstance(value, dict):
        return {
            key: names.get(inner, inner)
            if key == "name" and isinstance(inner, str)
            else _inside(inner, names)
            for key, inner in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        return [_inside(inner, names) for inner in cast("list[object]", value)]
    return value


_EXAMPLE: Final = ChatRequest(
    "m",
    (
        Message(role="user", content="Look it up."),
        Message(
            role="assistant",
            tool_calls=(ToolCall(id="call00001", name="docs server/search pages", arguments="{}"),),
        ),
        Message(role="tool", tool_call_id="call00001", content="Found."),
    ),
    tools=(
        FunctionTool(name="docs server/search pages"),
        FunctionTool(name="mcp__" + "long_" * 30),
    ),
)

NAMES_OF_64: Final = tool_names(
    "https://github.com/github/copilot-cli/issues/2581", "[A-Za-z0-9_-]{1,64}"
)
"""OpenAI's limit, which the other vendors of its dialect have too, or are safe within."""

NAMES_OF_128: Final = tool_names(
    "https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use",
    "[A-Za-z0-9_-]{1,128}",
    128,
)
"""Anthropic's limit."""
