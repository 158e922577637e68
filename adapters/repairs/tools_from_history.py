"""A conversation with calls whose request offers no tools, at a vendor that refuses that.

Agents ask for a title or a summary of a conversation without offering its tools. The vendor checks
each call against the tools, so it gets specifications made of the names in the conversation.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import CALLS, NO_CALLS, OPAQUE
from strowger_gateway.schemas.messages import FunctionTool, Message, Tool, ToolCall, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest, Request

_PARAMETERS: Final = Raw(b'{"type":"object","properties":{}}')
_TOLD: Final = "Was called earlier in this conversation. It is not available now: do not call it."
_EXAMPLE: Final = ChatRequest(
    "m",
    (
        Message(role="user", content="What is the weather?"),
        Message(
            role="assistant", tool_calls=(ToolCall(id="call00001", name="weather", arguments="{}"),)
        ),
        Message(role="tool", tool_call_id="call00001", content="Sunny."),
        Message(role="user", content="Summarise."),
    ),
)


def _names(messages: Sequence[Message]) -> tuple[str, ...]:
    names = [call.name for one in messages for call in one.tool_calls]
    return tuple(dict.fromkeys(names))


def _is_offered(tool: Tool, dialect: str) -> bool:
    """Return whether the vendor gets the tool: a function, or one of its own."""
    return isinstance(tool, FunctionTool) or tool.dialect == dialect != ""


def _with_tools(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    offered = request.tools or ()
    names = _names(request.messages)
    if not names or any(_is_offered(one, aim.dialect) for one in offered):
        return None
    made = [FunctionTool(name=one, description=_TOLD, parameters=_PARAMETERS) for one in names]
    choice = request.tool_choice if offered else UNSET
    tools = (*offered, *made)
    return Repaired(request=replace(request, tools=tools, tool_choice=choice), changed=("tools",))


def tools_from_history(source: str) -> Repair:
    """Return the rule for a vendor that takes no calls without tools."""
    return Repair(
        name="tools_from_history",
        about="makes tools of the names of earlier calls, if the request offers none",
        source=source,
        facts=CALLS
        | OPAQUE,  # what the client ran becomes a call: adapters/repairs/foreign_items.py
        apply=_with_tools,
        example=_EXAMPLE,
        loss="hint",
        light=True,
    )


def _with_any_choice(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice) or choice.mode != "none":
        return None
    if not _names(request.messages):
        return None
    return Repaired(request=replace(request, tool_choice=UNSET), left_out=("tool_choice",))


def no_tool_choice_none(source: str) -> Repair:
    """Return the rule for a vendor that cannot forbid calls where the conversation has some."""
    return Repair(
        name="tool_choice_none",
        about="leaves out `tool_choice: none` if the conversation has calls",
        source=source,
        facts=NO_CALLS,
        apply=_with_any_choice,
        example=replace(
            _EXAMPLE,
            tools=(FunctionTool(name="weather", parameters=_PARAMETERS),),
            tool_choice=ToolChoice(mode="none"),
        ),
        loss="constraint",
    )
