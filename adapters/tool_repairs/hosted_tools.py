"""Other tools than a web search that run at one vendor, at another vendor.

A model that may use them but need not can answer without. What the client runs itself (a shell, an
editor, a computer) stays and is refused: without it an agent could do nothing.
"""

import re
from typing import Final

from msgspec import Raw

from strowger_gateway.adapters.opaque_choice import needs_opaque_tool
from strowger_gateway.adapters.repairs.foreign_items import GEMINI, MESSAGES, RESPONSES
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.adapters.web_search.rules import without
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import FunctionTool, Message, OpaqueTool
from strowger_gateway.schemas.requests import ChatRequest, Request

HOSTED: Final = {
    RESPONSES: re.compile(
        "code_interpreter|file_search|image_generation|mcp|programmatic_tool_calling|tool_search"
    ),
    MESSAGES: re.compile(
        r"(advisor|code_execution|web_fetch|tool_search_tool_(bm25|regex))_20\d{6}"
        r"|tool_search_tool_(bm25|regex)|mcp_toolset"
    ),
    GEMINI: re.compile("code_execution|file_search|google_maps|mcp_servers|retrieval|url_context"),
}
"""By dialect, what matches the types of tools that run at the vendor.
https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-reference
https://ai.google.dev/api/caching#Tool"""


def _without_hosted(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or needs_opaque_tool(request):
        return None
    found = [
        one for one in request.tools or () if isinstance(one, OpaqueTool) and _is_hosted(one, aim)
    ]
    if not found:
        return None
    return Repaired(
        request=without(request, found),
        left_out=tuple(dict.fromkeys([f"tools[].{one.type}" for one in found])),
    )


def _is_hosted(tool: OpaqueTool, aim: Aim) -> bool:
    types = HOSTED.get(tool.dialect)
    return tool.dialect != aim.dialect and types is not None and bool(types.fullmatch(tool.type))


HOSTED_TOOLS: Final = Repair(
    name="hosted_tools",
    about="leaves out tools that run at another vendor, unless the client forces one",
    source="https://github.com/lidge-jun/opencodex/issues/5501",
    facts=OPAQUE,
    apply=_without_hosted,
    example=ChatRequest(
        "m",
        (Message(role="user", content="Draw a line."),),
        tools=(
            FunctionTool(name="look_up"),
            OpaqueTool(
                type="image_generation",
                raw=Raw(b'{"type":"image_generation"}'),
                dialect=RESPONSES,
            ),
        ),
    ),
    loss="constraint",
)
