"""Compares a request with the fields and values that a backend can honour."""

from collections.abc import Collection, Iterator, Sequence, Sized
from functools import partial

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.base import ALL_THOUGHTS, Range, Supports
from strowger_gateway.adapters.client_fields.patterns import DENIED, allowed, opened
from strowger_gateway.adapters.opaque_choice import needs_opaque_tool
from strowger_gateway.schemas.fields import (
    FIELDS,
    REASONING,
    TEXT,
    Task,
    extra_fields,
    field_value,
    is_neutral,
    sent_fields,
    task_of,
)
from strowger_gateway.schemas.hints import HEADERS, is_hint
from strowger_gateway.schemas.messages import (
    FunctionTool,
    OpaquePart,
    OpaqueTool,
    Thought,
    thoughts_of,
)
from strowger_gateway.schemas.requests import ChatRequest, Request, TokenRequest
from strowger_gateway.schemas.tasks.task import TaskRequest
from strowger_gateway.schemas.unknown_fields import Unknown

TOOL_PROPERTIES = "tools.properties"
"""The key in `Supports.ranges` for the number of properties in one tool's parameters."""

_TOKENIZER = "configure a tokenizer (providers[].tokenizer)"
NO_TEXT = f"is not returned by this backend; {_TOKENIZER}"
_LACKING = {
    "prompt.tokens": f"is not supported: this backend reads text; {_TOKENIZER}",
    "messages.opaque": "(files, for example) is not supported: send its text",
}
MISSING = "is required; send it, or set it in the model's defaults"


class Unsupported(Struct, frozen=True, kw_only=True):
    """field: as in schemas/fields.py, or the task's name if the backend lacks the whole task.

    reason: completes a sentence that begins with the field: "is not supported".
    hint:   the answer is the same without it: the request may be sent without it, and no backend
            is preferred for it.
    withheld: the backend could receive it, but clients may not send it there.
    """

    field: str
    reason: str
    hint: bool = False
    withheld: bool = False


class _Schema(Struct):
    properties: dict[str, Raw] | None = None


_schema = msgspec.json.Decoder(_Schema)
_FORCED = (
    ", and tool_choice requires it; leave out tool_choice, so that the model answers without it, "
    "or use a model at a vendor that has it"
)
_NONE: frozenset[str] = frozenset()
_POWERS = (31, 32, 63, 64)
_BESIDE = 2
"""How far from a power of two a bound may be to be shown relative to it."""


def offered(supports: Supports, task: Task) -> frozenset[str] | None:
    """Return the fields of a task, `None` if the task is not offered."""
    return getattr(supports, task)


def required(supports: Supports, task: Task) -> frozenset[str]:
    """Return the fields that a request of this task must have."""
    return supports.requires & FIELDS[task] if supports.requires else _NONE


def sent_as(supports: Supports, task: Task, field: str) -> str | None:
    """Return where a field is sent: see `Supports.translated`; "": unchanged; `None`: not sent."""
    if field not in (offered(supports, task) or _NONE):
        return None
    return supports.translated.get(task, {}).get(field, "")


def describe_range(bounds: Range) -> str:
    """Describe a range: `0 … 2`, `> 0, ≤ 1`, `at most 4 entries`; "" for none."""
    words: list[str] = []
    low, high = bounds.minimum, bounds.maximum
    if low is not None and high is not None:
        words.append(f"{_number(low)} … {_number(high)}")
    else:
        words += [f"≥ {_number(low)}"] if low is not None else []
        words += [f"> {_number(bounds.above)}"] if bounds.above is not None else []
        words += [f"≤ {_number(high)}"] if high is not None else []
    words += [f"< {_number(bounds.below)}"] if bounds.below is not None else []
    words += [f"at most {bounds.items} entries"] if bounds.items is not None else []
    return ", ".join(words)


def of_model(supports: Supports, model: str) -> Supports:
    """Return what one model of the provider honours."""
    missing = supports.lacks(model) if supports.lacks is not None else _NONE
    if not missing or supports.chat is None:
        return supports
    return replace(supports, chat=supports.chat - missing)


def restricted(supports: Supports, allow: tuple[str, ...], deny: tuple[str, ...]) -> Supports:
    """Apply an operator's `client_fields`, which can also deny known fields by name."""
    if not (allow or deny):
        return supports
    given = {task: offered(supports, task) for task in FIELDS}
    tasks = {task: one.difference(deny) for task, one in given.items() if one is not None}
    rules = opened(supports.client_fields, allow, deny)
    said = partial(allowed, allow=allow, deny=deny)
    repairs = [
        one if one.within is None else one.within(said)
        for one in supports.repairs
        if all(said(field) is None for field in one.fields)
    ]
    return replace(supports, client_fields=rules, repairs=tuple(repairs), **tasks)


def _missing(request: Request) -> str:
    """Return what to do about a missing field; models have no defaults for those of tasks."""
    return "is required; send it" if isinstance(request, TaskRequest) else MISSING


def unsupported(
    request: Request, supports: Supports, below: Sequence[Unknown] | None = None
) -> tuple[Unsupported, ...]:
    """Return what this backend cannot honour, and what it requires but lacks; commonly empty.

    Fields whose value has no effect (`n: 1`) are never included.
    below: strowger_gateway.schemas.unknown_fields.below_top of the request, if known.
    """
    task = task_of(request)
    fields = offered(supports, task)
    if fields is None:
        return (Unsupported(field=task, reason=_not_offered(supports, task)),)
    sent = sent_fields(request)
    foreign = _is_foreign(request, supports)
    faults = list(_foreign_content(request, supports)) if foreign else []
    named = {fault.field for fault in faults}
    if not sent <= fields:
        faults += [
            Unsupported(
                field=field,
                reason=_not_supported(field, fields, supports),
                hint=is_hint(request, field),
                withheld=field in supports.client_fields.deny,
            )
            for field in sorted(sent - fields - named)
            if not is_neutral(request, field)
        ]
    if "tools.opaque" in {fault.field for fault in faults} and needs_opaque_tool(request):
        faults.append(Unsupported(field="tool_choice", reason="needs a tool that is not supported"))
    if request.extra and (foreign or not supports.extra):
        known = supports.extra_fields.get(task, _NONE)
        if supports.dialect and supports.dialect == _dialect(request):
            known |= HEADERS
        known |= supports.headers
        own = _own_fields(request, supports)
        unknown = extra_fields(request)
        if supports.extra:
            unknown &= own
        faults += [
            Unsupported(field=field, reason="is not known", hint=is_hint(request, field))
            for field in sorted(unknown)
            if field in own or (field not in known and field.partition(".")[0] not in known)
        ]
    if request.extra or below or (below is None and has_nested(request)):
        faults += _withheld(request, supports, {fault.field for fault in faults}, below)
    if isinstance(request, TokenRequest) and request.text and not supports.text_of_tokens:
        faults.append(Unsupported(field=TEXT, reason=NO_TEXT))
    if supports.requires:
        missing = required(supports, task) - sent
        faults += [Unsupported(field=one, reason=_missing(request)) for one in missing]
    for field, bounds in supports.ranges.items():
        if field in sent:
            fault = _outside(field_value(request, field), bounds)
            if fault:
                faults.append(Unsupported(field=field, reason=fault))
        elif field == TOOL_PROPERTIES and "tools" in sent:
            fault = _outside(_most_properties(request), bounds)
            if fault:
                faults.append(Unsupported(field="tools", reason=f"properties of a tool: {fault}"))
    return tuple(faults)


def fits(request: Request, supports: Supports) -> tuple[tuple[str, Range], ...] | None:
    """Decide whether every request with the same fields, whatever their values, is fully honoured.

    Returns the bounds that their values must still be within (`outside`), or `None` if each request
    needs a check of its own (`unsupported`).
    """
    task = task_of(request)
    fields, sent = offered(supports, task), sent_fields(request)
    if (
        fields is None
        or not sent <= fields
        or request.extra
        or not required(supports, task) <= sent
    ):
        return None
    if isinstance(request, TokenRequest) and request.text and not supports.text_of_tokens:
        return None
    if TOOL_PROPERTIES in supports.ranges and "tools" in sent:
        return None
    return tuple((field, bounds) for field, bounds in supports.ranges.items() if field in sent)


def outside(request: Request, bounds: tuple[tuple[str, Range], ...]) -> tuple[int, ...]:
    """Return which bounds the values exceed, by index.

    bounds: the result of `fits` for a request with the same fields.
    """
    return tuple(
        [
            index
            for index, (field, one) in enumerate(bounds)
            if _outside(field_value(request, field), one)
        ]
    )


def omitted_content(request: Request, supports: Supports) -> tuple[str, ...]:
    """Return the content that is omitted for this backend without rejecting the request."""
    if supports.thoughts == ALL_THOUGHTS or not isinstance(request, ChatRequest):
        return ()
    if _has_own_items(request, supports):
        return ()
    for message in request.messages:
        if (message.reasoning or message.thoughts or message.signature) and not all(
            _reads(thought, supports) for thought in thoughts_of(message)
        ):
            return (REASONING,)
    return ()


_CONVERSATIONS = frozenset({"contents", "input", "messages"})
"""What the dialects with fields of their own call a conversation."""


def _has_own_items(request: ChatRequest, supports: Supports) -> bool:
    """Return whether the backend gets the client's own items, with all reasoning in them."""
    original = request.original
    return (
        original is not None
        and original.dialect == supports.dialect
        and not _CONVERSATIONS.isdisjoint(original.fields)
        and request.messages is original.read.messages
    )


def has_nested(request: Request) -> bool:
    """Return whether the request may have nested fields outside our schema."""
    if not isinstance(request, ChatRequest):
        return False
    if request.nested or OpaqueTool in map(type, request.tools or ()):
        return True
    return any(
        OpaquePart in map(type, one.content)
        for one in request.messages
        if isinstance(one.content, tuple)
    )


def _is_foreign(request: Request, supports: Supports) -> bool:
    """Return whether it is in a dialect that is neither OpenAI's nor the backend's."""
    dialect = _dialect(request)
    return dialect != "" and dialect != supports.dialect


def _dialect(request: Request) -> str:
    """Return the client's dialect if it is not OpenAI's."""
    if isinstance(request, ChatRequest):
        return "" if request.original is None else request.original.dialect
    return "" if isinstance(request, TokenRequest | TaskRequest) else request.dialect


def _own_fields(request: Request, supports: Supports) -> frozenset[str]:
    """Return the unknown fields that mean nothing, or something else, to the backend."""
    if not _is_foreign(request, supports):
        return _NONE
    original = request.original if isinstance(request, ChatRequest) else None
    if original is None:
        return extra_fields(request)
    if original.own is not None:
        return original.own
    return extra_fields(request) if supports.extra or supports.dialect else _NONE


def _foreign_content(request: Request, supports: Supports) -> Iterator[Unsupported]:
    """Yield the content and tools that exist only in another dialect, by their types."""
    if not isinstance(request, ChatRequest):
        return
    parts = [
        part
        for message in request.messages
        if isinstance(message.content, tuple)
        for part in message.content
        if isinstance(part, OpaquePart)
    ]
    tools = [tool for tool in request.tools or () if isinstance(tool, OpaqueTool)]
    for field, found in (("messages.opaque", parts), ("tools.opaque", tools)):
        kinds = sorted({one.type for one in found if one.dialect not in ("", supports.dialect)})
        if kinds:
            reason = f"({', '.join(kinds)}) is not supported: only its vendor's own API has it"
            if found is tools and needs_opaque_tool(request):
                reason += _FORCED
            yield Unsupported(field=field, reason=reason)


def _withheld(
    request: Request,
    supports: Supports,
    named: Collection[str],
    below: Sequence[Unknown] | None,
) -> Iterator[Unsupported]:
    """Yield the fields that the backend could receive but does not."""
    for one in supports.client_fields.refused(request, below):
        if one.field not in named:
            yield Unsupported(field=one.field, reason=one.reason, hint=one.optional, withheld=True)


def _reads(thought: Thought, supports: Supports) -> bool:
    """Another vendor's proven reasoning is reduced to its text; encrypted reasoning is omitted."""
    if supports.proofs is None or thought.kind == "text":
        return thought.kind in supports.thoughts
    if thought.proof_format in supports.proofs:
        return True
    return not thought.data and "text" in supports.thoughts


def _not_supported(field: str, fields: frozenset[str], supports: Supports) -> str:
    if field in supports.client_fields.deny:
        return f"is not forwarded: {DENIED}"
    if field == "messages.remote_image" and "messages.image" in fields:
        return "is not supported: this backend does not fetch images; send it as a data: URI"
    return _LACKING.get(field, "is not supported")


def _not_offered(supports: Supports, task: Task) -> str:
    """Return the reason, and the remedy for the operator."""
    bare = supports.completion is not None
    match task:
        case "tokens" if bare:
            return (
                "is not offered: this backend reads text; configure a tokenizer that reproduces "
                "every text it reads (providers[].tokenizer)"
            )
        case "completion" if supports.tokens is not None:
            return f"is not offered: this backend reads tokens; {_TOKENIZER}"
        case "tokens" | "completion" if supports.chat is not None:
            return (
                "is not offered: this backend accepts conversations, not bare prompts; "
                "send messages"
            )
        case "chat" if bare or supports.tokens is not None:
            return (
                "is not offered: this backend accepts bare prompts; configure a tokenizer with a "
                "chat template (providers[].tokenizer)"
            )
        case _:
            return "is not offered"


def _outside(value: object, bounds: Range) -> str:
    """Describe the fault; "" if the value is in range."""
    if bounds.items is not None and isinstance(value, Sized) and len(value) > bounds.items:
        return f"has {len(value)} entries, at most {bounds.items} are supported"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if bounds.minimum is not None and value < bounds.minimum:
        return f"is {_shown(value)}, at least {bounds.minimum:g} is supported"
    if bounds.maximum is not None and value > bounds.maximum:
        return f"is {_shown(value)}, at most {bounds.maximum:g} is supported"
    if bounds.above is not None and value <= bounds.above:
        return f"is {_shown(value)}, it must be over {bounds.above:g}"
    if bounds.below is not None and value >= bounds.below:
        return f"is {_shown(value)}, it must be under {bounds.below:g}"
    return ""


def _shown(value: float) -> str:
    """Format a number; an integer may have too many digits for a float."""
    try:
        return f"{value:g}"
    except OverflowError:
        return "too large for a float"


def _number(value: float) -> str:
    """Format a number; one close to a power of two as `2^31-1`."""
    for power in _POWERS:
        beyond = 2**power - abs(value)
        if 0 <= beyond <= _BESIDE:
            return f"{'-' if value < 0 else ''}2^{power}{f'-{beyond:g}' if beyond else ''}"
    return f"{value:g}"


def _most_properties(request: Request) -> int:
    if not isinstance(request, ChatRequest) or not request.tools:
        return 0
    return max(
        _properties(tool.parameters)
        if isinstance(tool, FunctionTool) and isinstance(tool.parameters, Raw)
        else 0
        for tool in request.tools
    )


def _properties(parameters: Raw) -> int:
    """Count properties; 0 if it is not a JSON schema, which the backend reports itself."""
    try:
        return len(_schema.decode(parameters).properties or ())
    except (msgspec.DecodeError, RecursionError):
        return 0
