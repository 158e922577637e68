"""Implements `response_format: json_object` with a tool, because Anthropic has no such mode.

`output_config.format` requires every member of the object in its schema, newer models reject
prefilled answers, and an instruction would change the prompt. So the model must call a tool that
accepts any object, and the call's arguments are the answer's text.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use#forcing-tool-use
"""

from collections.abc import Mapping
from typing import Final, cast

from msgspec import Raw, UnsetType

from strowger_gateway.adapters.anthropic.content_blocks import Block
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest

NAME: Final = "answer_in_json"
TOOL: Final[Mapping[str, object]] = {
    "description": "Takes the answer to the user, as the JSON object that the conversation asks "
    "for.",
    "input_schema": {"type": "object", "additionalProperties": True},
}


def json_tool(request: GenerateRequest) -> str:
    """Return the tool's name, which no function of the client has; "" for plain text.

    A client that forces a function gets the call instead of text.
    """
    if not isinstance(request, ChatRequest) or isinstance(request.response_format, UnsetType):
        return ""
    choice = request.tool_choice
    forced = not isinstance(choice, UnsetType) and choice.mode in ("named", "required", "opaque")
    if request.response_format.type != "json_object" or (request.tools and forced):
        return ""
    taken = {tool.name for tool in request.tools or () if isinstance(tool, FunctionTool)}
    name = NAME
    while name in taken:
        name += "_"
    return name


def add_json_tool(body: Block, request: ChatRequest, thinking: Raw | None) -> None:
    """Add the tool. Raises InvalidRequest with a thinking budget, which forbids forcing a call.

    thinking: the client's own.
    """
    name = json_tool(request)
    if not name:
        return
    ours = cast("Mapping[str, object]", body.get("thinking", {}))
    if ours.get("type") == "enabled" or (thinking and b'"enabled"' in bytes(thinking)):
        raise InvalidRequest(
            "response_format.type: with thinking, this backend supports text and json_schema; "
            "describe the JSON with a schema, or send reasoning_effort none",
            param="response_format.type",
        )
    tools = cast("list[object]", body.get("tools", []))
    body["tools"] = [*tools, {"name": name, **TOOL}]
    may_call = bool(tools) and not _forbidden(request)
    choice: Block = {"type": "any"} if may_call else {"type": "tool", "name": name}
    if request.parallel_tool_calls is False:
        choice["disable_parallel_tool_use"] = True
    body["tool_choice"] = choice


def _forbidden(request: ChatRequest) -> bool:
    choice = request.tool_choice
    return not isinstance(choice, UnsetType) and choice.mode == "none"
