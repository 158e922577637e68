"""Read messages and tools of Ollama's API into ours.

Calls have no ids in most clients of this API, and a result only names the function. Other vendors
need both: a call without an id gets one, by its place in the conversation, and a result without one
belongs to the first call of that name that has none yet.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from strowger_gateway.gateway.surfaces.anthropic import proofs
from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null, is_object
from strowger_gateway.gateway.surfaces.marked_objects import Marks, unknown_fields, with_marks
from strowger_gateway.gateway.surfaces.ollama.images import read_images, returned
from strowger_gateway.gateway.surfaces.ollama.wire import (
    ALLOWED,
    CallWire,
    FunctionWire,
    MessageWire,
    ToolWire,
)
from strowger_gateway.gateway.surfaces.open_calls import OpenCalls
from strowger_gateway.gateway.surfaces.strict_structs import strict
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    Part,
    Role,
    TextPart,
    Tool,
    ToolCall,
)

ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
MAX_MESSAGES: Final = 100_000

_CALL: Final = "call_"


class _Function(Struct, frozen=True, kw_only=True):
    function: Raw


_strict_message: Final = msgspec.json.Decoder(strict(MessageWire))
_message: Final = msgspec.json.Decoder(MessageWire)
_strict_tool: Final = msgspec.json.Decoder(strict(ToolWire))
_tool: Final = msgspec.json.Decoder(ToolWire)
_function: Final = msgspec.json.Decoder(_Function)
_arguments: Final = msgspec.json.Decoder(str)


class OllamaConversation:
    """The messages of one request, one for each that the client sent.

    marked: some have fields that our schema does not have.
    """

    def __init__(self, raws: Iterable[Raw]) -> None:
        """Raises InvalidRequest, whose `param` is the path of the invalid field."""
        self.marked = False
        self.messages: list[Message] = []
        self._open = OpenCalls()
        self._known = set[str]()
        self._made = 0
        for place, raw in enumerate(raws):
            if place >= MAX_MESSAGES:
                told = f"messages must have at most {MAX_MESSAGES} entries"
                raise InvalidRequest(told, param="messages")
            self.messages.append(self._read(raw, f"messages[{place}]"))

    def _read(self, raw: Raw, where: str) -> Message:
        wire, more = _decoded_message(raw, where)
        role = ROLES.get(wire.role.lower())
        if role is None:
            field = f"{where}.role"
            raise InvalidRequest(f"{field} must be {ALLOWED['messages[].role']}", param=field)
        marks = with_marks(more)
        self.marked = self.marked or marks is not UNSET
        if role == "assistant" and wire.images:
            return self._pictured(wire, where)
        content = _content(wire, where)
        if role == "tool":
            name = wire.tool_name or wire.name
            id = self._answered(wire.tool_call_id, name)
            # The call has the name, and most vendors take none here.
            own = UNSET if id in self._known or not name else name
            return Message(role=role, content=content, name=own, tool_call_id=id, marks=marks)
        calls = self._calls(wire.tool_calls or (), where)
        return Message(
            role=role,
            content=None if calls and not content else content,
            name=wire.name or UNSET,
            tool_calls=calls,
            reasoning=wire.thinking or UNSET,
            marks=marks,
        )

    def _pictured(self, wire: MessageWire, where: str) -> Message:
        """Return an answer with the images that the model made."""
        self.marked = True
        calls = self._calls(wire.tool_calls or (), where)
        images = read_images(wire.images or (), f"{where}.images")
        text, thinking = wire.content or "", wire.thinking or ""
        return Message(
            role="assistant",
            content=text,
            tool_calls=calls,
            reasoning=thinking or UNSET,
            raw=returned(text, calls, images, thinking),
        )

    def _calls(self, calls: tuple[CallWire, ...], where: str) -> tuple[ToolCall, ...]:
        """Calls that no result has answered by then remain without one."""
        if not calls:
            return ()
        found = [self._call(one, f"{where}.tool_calls[{at}]") for at, one in enumerate(calls)]
        self._open = OpenCalls()
        for one in found:
            self._open.add(one.id, one.name)
        self._known.update(one.id for one in found)
        return tuple(found)

    def _call(self, call: CallWire, where: str) -> ToolCall:
        id, signature = proofs.plain_id(call.id or "")
        if not id:
            id = f"{_CALL}{self._made}"
            self._made += 1
        return ToolCall(
            id=id,
            name=call.function.name,
            arguments=_arguments_of(call.function.arguments, where),
            signature=signature,
        )

    def _answered(self, id: str | None, name: str | None) -> str:
        """Return the id of the call that a result belongs to."""
        if id:
            id = proofs.plain_id(id)[0]
            self._open.of_id(id)
            return id
        found = self._open.of_name(name) if name else self._open.first()
        if found is None:
            self._made += 1
            return f"{_CALL}{self._made - 1}"
        return found


class OllamaTools(Struct, frozen=True, kw_only=True):
    """marked: some have fields that our schema does not have."""

    tools: tuple[Tool, ...] | UnsetType = UNSET
    marked: bool = False


def read_tools(raws: tuple[Raw, ...] | None) -> OllamaTools:
    """Raises InvalidRequest. An empty list counts as absent, as with Ollama."""
    if not raws:
        return OllamaTools()
    tools = tuple([_read_tool(raw, f"tools[{at}]") for at, raw in enumerate(raws)])
    return OllamaTools(tools=tools, marked=any(one.marks is not UNSET for one in tools))


def _read_tool(raw: Raw, where: str) -> FunctionTool:
    marks: Marks = {}
    try:
        wire = _strict_tool.decode(raw)
    except ValidationError:
        try:
            wire = _tool.decode(raw)
        except (DecodeError, RecursionError) as exc:
            raise invalid_request(exc, where, ALLOWED) from exc
        marks = _marks_of(raw)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    if wire.type not in (None, "", "function"):
        field = f"{where}.type"
        raise InvalidRequest(f'{field} must be "function"', param=field)
    function = wire.function
    parameters = function.parameters
    if isinstance(parameters, Raw) and not is_null(parameters) and not is_object(parameters):
        field = f"{where}.function.parameters"
        raise InvalidRequest(f"{field} must be a JSON schema, which is an object", param=field)
    return FunctionTool(
        name=function.name,
        description=UNSET if function.description is None else function.description,
        parameters=UNSET
        if isinstance(parameters, UnsetType) or is_null(parameters)
        else parameters,
        marks=with_marks(marks),
    )


def _marks_of(tool: Raw) -> Marks:
    """Return the fields of a tool that the schema does not have, also those of its function."""
    found = unknown_fields(tool, ToolWire)
    inner = with_marks(unknown_fields(_function.decode(tool).function, FunctionWire))
    return {**found, "function": inner} if isinstance(inner, Raw) else found


def _decoded_message(raw: Raw, where: str) -> tuple[MessageWire, Marks]:
    """Return the message, and the fields that our schema does not have."""
    try:
        return _strict_message.decode(raw), {}
    except ValidationError:
        pass
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    try:
        return _message.decode(raw), unknown_fields(raw, MessageWire)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc


def _content(wire: MessageWire, where: str) -> str | tuple[Part, ...]:
    text = wire.content or ""
    if not wire.images:
        return text
    parts: list[Part] = [TextPart(text=text)] if text else []
    return (*parts, *read_images(wire.images, f"{where}.images"))


def _arguments_of(raw: Raw | UnsetType, where: str) -> str:
    """Return the arguments as JSON text; some clients send that text instead of the object."""
    if isinstance(raw, UnsetType) or is_null(raw):
        return "{}"
    if is_object(raw):
        return bytes(raw).decode()
    field = f"{where}.function.arguments"
    try:
        return _arguments.decode(raw) or "{}"
    except DecodeError as exc:
        raise InvalidRequest(f"{field} must be an object", param=field) from exc
