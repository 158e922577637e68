"""`tool_choice: none` at a server that has no tool choice: it gets no tools."""

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import NO_CALLS
from strowger_gateway.schemas.messages import FunctionTool, Message, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest, Request


def _without_tools(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice) or choice.mode != "none":
        return None
    return Repaired(
        request=replace(request, tools=UNSET, tool_choice=UNSET, parallel_tool_calls=UNSET),
        changed=("tools", "tool_choice"),
    )


def withheld_tools(source: str) -> Repair:
    """Return the rule for a server. source: where it documents its requests."""
    return Repair(
        name="withheld_tools",
        about="sends no tools if none may be called",
        source=source,
        facts=NO_CALLS,
        apply=_without_tools,
        example=_EXAMPLE,
    )


_EXAMPLE: Final = ChatRequest(
    "m",
    (Message(role="user", content="Hello"),),
    tools=(FunctionTool(name="weather"),),
    tool_choice=ToolChoice(mode="none"),
)
