"""One function offered twice, as by a client that adds its tools to those of a plugin.

Vendors refuse two tools of one name. Two different ones are left to the vendor to refuse, because
which of them the client means is unknown.
"""

from typing import Final

from msgspec import DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import read_json
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request


def _once(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    names = [tool.name for tool in request.tools if isinstance(tool, FunctionTool)]
    if len(set(names)) == len(names):
        return None
    kept: list[Tool] = []
    offered: dict[str, list[FunctionTool]] = {}
    for tool in request.tools:
        if isinstance(tool, FunctionTool):
            before = offered.setdefault(tool.name, [])
            if any(_same(tool, one) for one in before):
                continue
            before.append(tool)
        kept.append(tool)
    if len(kept) == len(request.tools):
        return None
    return Repaired(request=replace(request, tools=tuple(kept)), left_out=("tools[]",))


def _same(one: FunctionTool, other: FunctionTool) -> bool:
    return (
        (one.description or "") == (other.description or "")
        and (one.strict or False) == (other.strict or False)
        and _value(one.parameters) == _value(other.parameters)
    )


def _value(schema: object) -> object:
    """Return a schema's value, so that order and white space do not matter."""
    if not isinstance(schema, Raw):
        return None
    try:
        return read_json(schema)
    except (DecodeError, RecursionError):
        return bytes(schema)


_PARAMETERS: Final = Raw(b'{"type":"object","properties":{}}')
_TOOL: Final = FunctionTool(name="look_up", parameters=_PARAMETERS)

SAME_TOOLS: Final = Repair(
    name="unique_tools",
    about="leaves out functions that are offered twice",
    source="https://github.com/danny-avila/LibreChat/issues/13162",
    facts=TOOLS,
    apply=_once,
    example=ChatRequest(
        "m",
        (Message(role="user", content="Hello"),),
        tools=(_TOOL, FunctionTool(name="time", parameters=_PARAMETERS), _TOOL),
    ),
    light=True,
)
