"""Finds tool choices that cannot be met without the tools that a backend does not have."""

import msgspec
from msgspec import Raw, Struct, UnsetType

from strowger_gateway.schemas.messages import FunctionTool, OpaqueTool
from strowger_gateway.schemas.requests import ChatRequest, Request


class _Kind(Struct):
    type: str = ""


_kind = msgspec.json.Decoder(_Kind)


def needs_opaque_tool(request: Request) -> bool:
    """Return whether the tool choice needs a tool that is not a function."""
    if not isinstance(request, ChatRequest) or isinstance(request.tool_choice, UnsetType):
        return False
    choice, tools = request.tool_choice, request.tools or ()
    functions = {one.name for one in tools if isinstance(one, FunctionTool)}
    match choice.mode:
        case "auto" | "none":
            return False
        case "named":
            return choice.name not in functions
        case "required":
            return not functions
        case _:
            kinds = {one.type for one in tools if isinstance(one, OpaqueTool)}
            return isinstance(choice.raw, Raw) and _kind_of(choice.raw) in kinds


def _kind_of(raw: Raw) -> str:
    try:
        return _kind.decode(raw).type
    except (msgspec.DecodeError, RecursionError):
        return ""
