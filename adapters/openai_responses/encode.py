"""Chat requests as bodies of `POST /v1/responses`.

A client of this API sends more than our messages have: the order of items, their ids and phases,
and items of tools that run at the server. What nothing in the gateway had to change leaves as the
client wrote it; everything else is encoded from our schema.
https://platform.openai.com/docs/api-reference/responses/create
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.openai_responses.items import InputItems, Item
from strowger_gateway.adapters.openai_responses.row import REASONS, ResponsesRow
from strowger_gateway.adapters.openai_responses.wire import DIALECT, INPUT
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    OpaqueTool,
    ResponseFormat,
    Tool,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest
from strowger_gateway.schemas.searches import is_search

ENCRYPTED = "reasoning.encrypted_content"
SOURCES = "web_search_call.action.sources"
LOGPROBS = "message.output_text.logprobs"

LOWEST_PRIORITY = 5
"""The priority of a request that sets none."""

_ALIKE = ("parallel_tool_calls", "user", "metadata")
"""Fields that have the same name and meaning in chat completions."""

_NO_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}}
_QUOTE = b'"'

_SYSTEM: Final = frozenset({"system", "developer"})
_EMPTY: Final = b'""'
_NOTHING: Final[dict[str, Raw]] = {}

_encode = msgspec.json.Encoder().encode
_names = msgspec.json.Decoder(list[str]).decode
_raws = msgspec.json.Decoder(list[Raw]).decode


class _UnchangedFields(Struct, frozen=True, kw_only=True):
    """fields: the client's JSON by field. before: messages to encode before its `input`."""

    fields: dict[str, Raw]
    before: Sequence[Message]


class _TypedTool(Struct, frozen=True, kw_only=True):
    type: str = ""
    name: str = ""


class _RoleOfItem(Struct, frozen=True, kw_only=True):
    role: str | None = ""


_read_role = msgspec.json.Decoder(_RoleOfItem).decode
_read_tools = msgspec.json.Decoder(list[_TypedTool]).decode
_read_reasoning = msgspec.json.Decoder(dict[str, Raw]).decode


def responses_body(request: ChatRequest, model: str, row: ResponsesRow) -> bytes:
    """Encode a chat. Unsupported fields are never written, even if routing lets them pass.

    Raises InvalidRequest, naming the path, for anything that the API does not support.
    """
    unchanged = _UnchangedFields(fields={}, before=request.messages)
    custom = frozenset[str]()
    if row.whole:
        unchanged, custom = _unchanged_fields(request), _custom_tools(request)
    sent = unchanged.fields
    body: Item = {"model": model, **sent, INPUT: _input(unchanged, custom, row, _end(request, row))}
    _add_sampling(body, request, row)
    if request.tools and "tools" not in sent:
        native = _is_native(request)
        body["tools"] = [
            _tool(one, f"tools[{at}]", native=native) for at, one in enumerate(request.tools)
        ]
    if request.tools and "tool_choice" not in sent and request.tool_choice is not UNSET:
        body["tool_choice"] = _choice(request.tool_choice, custom)
    for name in _ALIKE:
        value: object = getattr(request, name)
        if name in row.chat and value is not UNSET:
            body[name] = value
    _add_output(body, request, row)
    _add_include(body, request, model, row)
    body["store"] = False
    if request.stream:
        body["stream"] = True
    _add_extra(body, request.extra)
    return _encode(body | (request.private or {}) | (request.written or {}))


def _input(
    unchanged: _UnchangedFields, custom: frozenset[str], row: ResponsesRow, after: Sequence[Item]
) -> object:
    """Return the client's own items, after those that the gateway has put before them.

    after: what the client's own items end with, and our messages do not have.
    """
    raw = unchanged.fields.get(INPUT)
    if raw is not None and not unchanged.before:
        return raw
    items = InputItems(row, custom)
    items.add(unchanged.before)
    if raw is None:
        return [*items.items, *after]
    if bytes(memoryview(raw)[:1]) == _QUOTE:
        said: Item = {"type": "message", "role": "user", "content": raw}
        return [*items.items, said]
    return [*items.items, *_raws(raw)]


def _end(request: ChatRequest, row: ResponsesRow) -> Sequence[Item]:
    """Return the item that asks for a summary, if the client has sent it."""
    wants = None if request.original is None else request.original.compaction
    if not row.compacts or wants is None or not wants.now or isinstance(wants.kept, Raw):
        return ()
    return ({"type": "compaction_trigger"},)


def _add_sampling(body: Item, request: ChatRequest, row: ResponsesRow) -> None:
    sampling = request.sampling
    for field, name in row.sampling.items():
        value: object = getattr(sampling, field)
        if not isinstance(value, UnsetType) and value is not None:
            body[name] = value
    own = request.priority
    if "priority" in row.chat and not isinstance(own, UnsetType) and own != LOWEST_PRIORITY:
        body["priority"] = own - LOWEST_PRIORITY


def _add_output(body: Item, request: ChatRequest, row: ResponsesRow) -> None:
    """Add how the model thinks and answers."""
    extra = request.extra
    text: Item = {}
    form = _format(request.response_format, row)
    if form is not None:
        text["format"] = form
    if "verbosity" in extra:
        text["verbosity"] = extra["verbosity"]
    reasoning: Item = {**_summary_fields(request)}
    if not isinstance(request.reasoning_effort, UnsetType):
        reasoning["effort"] = request.reasoning_effort
    for name, ours in (("text", text), ("reasoning", reasoning)):
        found = _merged(name, ours, extra)
        if found:
            body[name] = found


def _merged(name: str, ours: Item, extra: Mapping[str, Raw]) -> Item | Raw:
    """Add the members that our schema does not have: whole, or by their path."""
    before = f"{name}."
    ours |= {path[len(before) :]: raw for path, raw in extra.items() if path.startswith(before)}
    raw = extra.get(name)
    if raw is None:
        return ours
    if not ours:
        return raw
    try:
        theirs = read_object(raw)
    except UNREADABLE as exc:
        raise InvalidRequest(f"{name}: must be an object", param=name) from exc
    for key in ours.keys() & theirs.keys():
        field = f"{name}.{key}"
        raise InvalidRequest(
            f"{field}: is also sent under OpenAI's name for chat completions; send only one",
            param=field,
        )
    return {**theirs, **ours}


def _add_include(body: Item, request: ChatRequest, model: str, row: ResponsesRow) -> None:
    """Ask for what comes on demand: probabilities, encrypted reasoning, results of searches."""
    raw = request.extra.get("include")
    names: list[str] = []
    if raw is not None:
        try:
            names = _names(raw)
        except UNREADABLE:
            body["include"] = raw  # the vendor rejects it by name
            return
    if request.sampling.logprobs and "logprobs" in row.chat:
        names.append(LOGPROBS)
    thinks = REASONS.match(model) is not None or bool(request.reasoning_effort)
    if thinks and row.proofs:
        names.append(ENCRYPTED)
    if row.sources and not _is_native(request):
        tools = request.tools or ()
        if any(isinstance(one, OpaqueTool) and is_search(one) for one in tools):
            names.append(SOURCES)
    if names:
        body["include"] = list(dict.fromkeys(names))


def _add_extra(body: Item, extra: Mapping[str, Raw]) -> None:
    for name, raw in extra.items():
        if name not in ("include", "text", "reasoning", "verbosity") and "." not in name:
            body[name] = raw


def _tool(one: Tool, field: str, *, native: bool) -> Item | Raw:
    """Encode a tool; the vendor's own tools and unknown types are sent unchanged.

    native: the client leaves `strict` to the API's default, which is true, unlike in chat
    completions.
    """
    if not isinstance(one, FunctionTool):
        if not one.dialect and "custom" in read_object(one.raw):
            raise InvalidRequest(
                f"{field}.custom: this backend takes tools with free-text input only from clients "
                "of the Responses API; send a function",
                param=f"{field}.custom",
            )
        return one.raw
    body: Item = {"type": "function", "name": one.name}
    if not isinstance(one.description, UnsetType):
        body["description"] = one.description
    body["parameters"] = _schema(one, f"{field}.function.parameters")
    if isinstance(one.strict, bool):
        body["strict"] = one.strict
    elif not native:
        body["strict"] = False
    return body


def _schema(one: FunctionTool, field: str) -> Mapping[str, object] | Raw:
    if isinstance(one.parameters, UnsetType) or one.parameters == NULL:
        return _NO_PARAMETERS
    try:
        read_object(one.parameters)
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be a JSON schema", param=field) from exc
    return one.parameters


def _choice(choice: ToolChoice, custom: frozenset[str]) -> object:
    if choice.mode == "named":
        kind = "custom" if choice.name in custom else "function"
        return {"type": kind, "name": choice.name}
    if choice.mode != "opaque":
        return choice.mode
    return _own_choice(choice.raw) if isinstance(choice.raw, Raw) else "auto"


def _own_choice(raw: Raw) -> object:
    """Encode a choice among several tools, whose form in chat completions is another one."""
    try:
        fields = read_object(raw)
        allowed = fields.get("allowed_tools")
        if allowed is None:
            return raw
        inner = read_object(allowed)
        tools = [_named(read_object(one)) for one in _raws(inner.get("tools", Raw(b"[]")))]
    except UNREADABLE as exc:
        raise InvalidRequest("tool_choice: must name tools", param="tool_choice") from exc
    return {"type": "allowed_tools", "mode": inner.get("mode", Raw(b'"auto"')), "tools": tools}


def _named(tool: Mapping[str, Raw]) -> Item:
    function = tool.get("function")
    return {**tool} if function is None else {"type": "function", **read_object(function)}


def _format(form: ResponseFormat | UnsetType, row: ResponsesRow) -> Item | None:
    """Return `None` for plain text, the default."""
    if isinstance(form, UnsetType) or form.type == "text":
        return None
    field = "response_format"
    if form.type == "json_object" and row.json_object:
        return {"type": "json_object"}
    if form.type != "json_schema":
        known = "text, json_object and json_schema" if row.json_object else "text and json_schema"
        raise InvalidRequest(f"{field}.type: this backend supports {known}", param=f"{field}.type")
    if isinstance(form.schema, UnsetType):
        field = f"{field}.json_schema.schema"
        raise InvalidRequest(f"{field}: is required by this backend", param=field)
    body: Item = {"type": "json_schema", "name": form.name or "answer", "schema": form.schema}
    if not isinstance(form.description, UnsetType):
        body["description"] = form.description
    if isinstance(form.strict, bool):
        body["strict"] = form.strict
    return body


def _is_native(request: GenerateRequest) -> bool:
    """Return whether the client speaks this API, so that it reads all items and events."""
    if not isinstance(request, ChatRequest) or request.original is None:
        return False
    return request.original.dialect == DIALECT


def _unchanged_fields(request: ChatRequest) -> _UnchangedFields:
    """Return the client's JSON of the conversation and the tools that nothing has changed."""
    original, messages = request.original, request.messages
    if original is None or original.dialect != DIALECT:
        return _UnchangedFields(fields=_NOTHING, before=messages)
    read, fields = original.read, original.fields
    sent: dict[str, Raw] = {}
    if request.tools is read.tools:
        sent |= _of(fields, "tools")
        if request.tool_choice is read.tool_choice:
            sent |= _of(fields, "tool_choice")
    if INPUT not in fields:
        return _UnchangedFields(fields=sent, before=messages)
    if messages is read.messages:
        sent |= _of(fields, INPUT, "instructions")
        return _UnchangedFields(fields=sent, before=())
    items = read.messages[_instructed(fields) :]
    if _ends_with(messages, items):
        sent |= _of(fields, INPUT)
        return _UnchangedFields(fields=sent, before=messages[: len(messages) - len(items)])
    lead, raw = _after_system(items, fields[INPUT])
    if not lead or not _ends_with(messages, items[lead:]):
        return _UnchangedFields(fields=sent, before=messages)
    sent[INPUT] = raw
    return _UnchangedFields(fields=sent, before=messages[: len(messages) - len(items) + lead])


def _ends_with(messages: Sequence[Message], items: Sequence[Message]) -> bool:
    place = len(messages) - len(items)
    return place >= 0 and all(a is b for a, b in zip(messages[place:], items, strict=True))


def _after_system(items: Sequence[Message], raw: Raw) -> tuple[int, Raw]:
    """Return how many system messages `input` begins with, and its items after them.

    The gateway puts a prompt's turns after them, and so between the client's items.
    """
    lead = next((at for at, one in enumerate(items) if one.role not in _SYSTEM), 0)
    if not lead:
        return 0, raw
    given = _raws(raw)
    if any(_read_role(one).role not in _SYSTEM for one in given[:lead]):
        return 0, raw  # such a message is not one item of its own
    return lead, Raw(_encode(given[lead:]))


def _instructed(fields: Mapping[str, Raw]) -> int:
    """Return how many messages `instructions` became."""
    return int(bytes(fields.get("instructions", Raw(_EMPTY))) != _EMPTY)


def reads_events(request: GenerateRequest) -> bool:
    """Return whether the client reads the server's own items and events.

    If its tools had to change, custom ones have become functions, and only the surface knows them.
    """
    if not isinstance(request, ChatRequest) or request.original is None:
        return False
    return _is_native(request) and request.tools is request.original.read.tools


def _custom_tools(request: ChatRequest) -> frozenset[str]:
    """Return the names of the client's tools that take text, if they are sent as they are."""
    if not reads_events(request) or request.original is None:
        return frozenset()
    tools = request.original.fields.get("tools")
    if tools is None or b'"custom"' not in bytes(tools):
        return frozenset()
    try:
        return frozenset([one.name for one in _read_tools(tools) if one.type == "custom"])
    except UNREADABLE:
        return frozenset()


def _summary_fields(request: ChatRequest) -> dict[str, Raw]:
    """Return how the client wants reasoning to be summarised."""
    if not _is_native(request) or request.original is None:
        return _NOTHING
    raw = request.original.fields.get("reasoning")
    if raw is None:
        return _NOTHING
    return {
        name: one
        for name, one in _read_reasoning(raw).items()
        if name in ("summary", "generate_summary") and bytes(one) != b"null"
    }


def _of(fields: Mapping[str, Raw], *names: str) -> dict[str, Raw]:
    return {name: fields[name] for name in names if name in fields}
