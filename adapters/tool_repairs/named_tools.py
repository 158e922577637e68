"""Tools that only one vendor runs, as their type says, at another vendor.

OpenRouter names its tools `openrouter:TOOL`, and Moonshot's are of the type `builtin_function`.
Other vendors refuse the tool and with it the request, though the model could do the rest.
"""

from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import FunctionTool, Message, OpaqueTool, Tool, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.searches import is_search

OPENROUTERS: Final = "openrouter:"
MOONSHOTS: Final = "builtin_function"


def named_tools(*keeps: str, searches: bool = False) -> Repair:
    """Return the rule for a vendor. keeps: beginnings of the types that it runs itself.

    searches: another rule makes its own web search of OpenRouter's.
    """
    others = tuple([one for one in (OPENROUTERS, MOONSHOTS) if one not in keeps])

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or not request.tools or _is_chosen(request):
            return None
        kept = tuple(
            [
                one
                for one in request.tools
                if not _is_of(one, others) or (searches and is_search(one))
            ]
        )
        if len(kept) == len(request.tools):
            return None
        sent = replace(request, tools=kept)
        if not kept:
            sent = replace(sent, tools=UNSET, tool_choice=UNSET, parallel_tool_calls=UNSET)
        return Repaired(request=sent, left_out=("tools[]",))

    return Repair(
        name="named_tool",
        about="leaves out tools that only another vendor runs, as their type says",
        source="https://openrouter.ai/docs/guides/features/server-tools",
        facts=OPAQUE,
        apply=apply,
        example=ChatRequest(
            "m",
            (Message(role="user", content="Hello"),),
            tools=(
                FunctionTool(name="look_up"),
                OpaqueTool(type=others[0], raw=Raw(b'{"type":"%b"}' % others[0].encode())),
            ),
        ),
        loss="constraint",
    )


def _is_of(tool: Tool, kinds: tuple[str, ...]) -> bool:
    return isinstance(tool, OpaqueTool) and not tool.dialect and tool.type.startswith(kinds)


def _is_chosen(request: ChatRequest) -> bool:
    """Return whether the client forces a call of another tool than a function by its name."""
    choice = request.tool_choice
    return isinstance(choice, ToolChoice) and choice.mode in ("opaque", "required")


NAMED_TOOLS: Final = named_tools()
"""Of every backend but these two."""
