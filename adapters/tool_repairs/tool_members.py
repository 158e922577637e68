"""Members of a function's definition that one service of a vendor's models does not know."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request

_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_NONE: Final[Mapping[str, Raw]] = {}


def unknown_members(source: str, *names: str) -> Repair:
    """Return the rule for a service that refuses these members. source: where it says so."""

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or not request.tools:
            return None
        gone: dict[str, None] = {}
        tools = tuple([_without(tool, names, gone) for tool in request.tools])
        if not gone:
            return None
        return Repaired(
            request=replace(request, tools=tools),
            left_out=tuple([f"tools[].function.{name}" for name in gone]),
        )

    return Repair(
        name="tool_member",
        about=f"leaves out {' and '.join(f'`{one}`' for one in names)} of functions",
        source=source,
        facts=TOOLS,
        apply=apply,
        example=ChatRequest(
            "m",
            (Message(role="user", content="Hello"),),
            tools=(FunctionTool(name="look_up", marks=Raw(b'{"%b":true}' % names[0].encode())),),
        ),
        loss="hint",
        light=True,
    )


def _without(tool: Tool, names: tuple[str, ...], gone: dict[str, None]) -> Tool:
    if not isinstance(tool, FunctionTool):
        return tool
    marks, raw = _cut(tool.marks, names, gone), _cut(tool.raw, names, gone)
    if isinstance(raw, Raw) and (inner := _read(raw).get("function")) is not None:
        function = _cut(inner, names, gone)
        if function is not inner:
            raw = with_members(raw, {"function": function})
    if marks is tool.marks and raw is tool.raw:
        return tool
    return replace(tool, marks=marks, raw=raw)


def _cut(raw: Raw | UnsetType, names: tuple[str, ...], gone: dict[str, None]) -> Raw | UnsetType:
    found = [name for name in names if name in _read(raw)]
    if not found or not isinstance(raw, Raw):
        return raw
    gone.update(dict.fromkeys(found))
    return with_members(raw, dict.fromkeys(found, UNSET))


def _read(raw: Raw | UnsetType) -> Mapping[str, Raw]:
    if not isinstance(raw, Raw):
        return _NONE
    try:
        return _fields(raw)
    except (DecodeError, RecursionError):
        return _NONE
