"""Chat requests as bodies of Anthropic's `POST /v1/messages`.

Effort and a JSON schema are under `output_config`, the user under `metadata`, the limit of one call
at a time in `tool_choice`; thinking is requested in one of two ways, depending on the model.
https://docs.anthropic.com/en/api/messages
"""

import re
from collections.abc import Collection, Mapping
from typing import cast

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.adapters.anthropic.asked_thinking import LEAST_BUDGET, SHARES, budget_of
from strowger_gateway.adapters.anthropic.claude_models import (
    has_later_system,
    is_others,
    thinks_by_budget,
)
from strowger_gateway.adapters.anthropic.content_blocks import Block
from strowger_gateway.adapters.anthropic.json_object import add_json_tool
from strowger_gateway.adapters.anthropic.kept_turns import kept_turns
from strowger_gateway.adapters.anthropic.messages import conversation
from strowger_gateway.adapters.anthropic.original_fields import (
    kept_tools,
    same_conversation,
    says_effort,
    unchanged_fields,
)
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool, ResponseFormat, Tool, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest

SAMPLING: Mapping[str, str] = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop_sequences",
}
"""Our names -> the wire's."""

EFFORTS = (*SHARES,)
"""Levels of `reasoning_effort`; `none` is handled separately."""

TOOL_FIELDS = (
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
)
"""Fields of a tool that only Anthropic reads, next to `function` or inside it."""

CHOICES: Mapping[str, str] = {"auto": "auto", "required": "any", "none": "none", "named": "tool"}

OWN_CHOICES = (b'"any"', b'"auto"', b'"none"', b'"tool"')
"""Types of Anthropic's own `tool_choice`, as JSON."""

TIERS = (b'"auto"', b'"standard_only"')
"""Values of `service_tier`, as JSON. https://docs.anthropic.com/en/api/service-tiers"""

COUNTED = frozenset(
    {
        "cache_control",
        "context_management",
        "mcp_servers",
        "messages",
        "model",
        "output_config",
        "speed",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)
"""https://docs.anthropic.com/en/api/messages-count-tokens"""

BETA = "anthropic-beta"
"""A header of the API, which clients of other dialects send as a field."""

_BETAS = re.compile(r"[\x21-\x7e]+(?:[ ,]+[\x21-\x7e]+)*")

_NO_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}}
_OBJECT = Raw(b'"object"')

_encode = msgspec.json.Encoder().encode
_text = msgspec.json.Decoder(str).decode


def messages_body(
    request: ChatRequest,
    model: str,
    supported: Collection[str],
    head: Mapping[str, object] | None = None,
) -> bytes:
    """Encode a chat. Unsupported fields are never written, even if routing lets them pass.

    head: the fields that name model and version, if not only `model`.
    Raises InvalidRequest, naming the path, for anything that the API does not support.
    """
    if not request.sampling.max_tokens:
        raise InvalidRequest(
            "max_tokens: is required; send it, or set it in the model's defaults",
            param="max_tokens",
        )
    head = {"model": model} if head is None else head
    return _encode(_body(request, model, supported, head))


def count_body(
    request: ChatRequest,
    model: str,
    supported: Collection[str],
    head: Mapping[str, object] | None = None,
) -> bytes:
    """Encode a chat for `count_tokens`, which takes only what changes the prompt.

    head: see `messages_body`.
    """
    head = {"model": model} if head is None else head
    body = _body(request, model, supported, head)
    return _encode({name: raw for name, raw in body.items() if name in COUNTED or name in head})


def _body(
    request: ChatRequest, model: str, supported: Collection[str], head: Mapping[str, object]
) -> Block:
    sent = unchanged_fields(request)
    body: Block = {**head}
    if not same_conversation(request, sent):
        kept = kept_turns(request)
        dialogue = conversation(
            request.messages,
            kept,
            unproven=is_others(model),
            later_system=has_later_system(model),
        )
        body["messages"] = dialogue.turns
        if dialogue.system:
            body["system"] = dialogue.system
    _add_sampling(body, request, supported)
    if request.tools and "tools" not in sent:
        own = kept_tools(request)
        body["tools"] = [
            own[at] if at in own else _tool(one, f"tools[{at}]")
            for at, one in enumerate(request.tools)
        ]
    if request.tools and "tool_choice" not in sent:
        choice = _choice(request)
        if choice is not None:
            body["tool_choice"] = choice
    if not isinstance(request.user, UnsetType):
        body["metadata"] = {"user_id": request.user}
    if says_effort(request):
        add_json_tool(body, request, sent.get("thinking"))
    else:
        _add_output(body, request, model)
    body |= sent
    if request.stream:
        body["stream"] = True
    _add_extra(body, {k: raw for k, raw in request.extra.items() if k not in sent})
    return body


def _add_output(body: Block, request: ChatRequest, model: str) -> None:
    output: Block = {}
    if not isinstance(request.reasoning_effort, UnsetType):
        _add_thinking(body, output, request, model)
    add_json_tool(body, request, request.extra.get("thinking"))
    form = _format(request.response_format)
    if form is not None:
        output["format"] = form
    if output:
        body["output_config"] = output


def betas(request: ChatRequest) -> str:
    """Return the value of the header. Raises InvalidRequest if it cannot be one."""
    raw = request.extra.get(BETA)
    if raw is None:
        return ""
    try:
        value = _text(raw)
    except UNREADABLE:
        value = ""
    if not _BETAS.fullmatch(value):
        raise InvalidRequest(f"{BETA}: must be a text of names and commas", param=BETA)
    return value


def _add_sampling(body: Block, request: ChatRequest, supported: Collection[str]) -> None:
    for field, name in SAMPLING.items():
        value: object = getattr(request.sampling, field)
        absent = isinstance(value, UnsetType) or value is None or value == ()
        if field in supported and not absent:
            body[name] = value


def _tool(one: Tool, field: str) -> Block | Raw:
    """Encode a tool; the vendor's own tools and unknown types are sent unchanged."""
    if not isinstance(one, FunctionTool):
        if "custom" in read_object(one.raw):
            raise InvalidRequest(
                f"{field}.custom: this backend has no tools with free-text input; send a function",
                param=f"{field}.custom",
            )
        return one.raw
    body: Block = {"name": one.name}
    if not isinstance(one.description, UnsetType):
        body["description"] = one.description
    body["input_schema"] = _schema(one, f"{field}.function.parameters")
    if isinstance(one.strict, bool):
        body["strict"] = one.strict
    if isinstance(one.marks, Raw):
        known = read_object(one.marks)
        body |= {name: raw for name, raw in known.items() if name in TOOL_FIELDS}
    if isinstance(one.raw, Raw):
        fields = read_object(one.raw)
        function = fields.get("function", NULL)
        inner = read_object(function) if function != NULL else {}
        for name in TOOL_FIELDS:
            value = fields.get(name, inner.get(name, NULL))
            if value != NULL:
                body[name] = value
    return body


def _schema(one: FunctionTool, field: str) -> Mapping[str, object] | Raw:
    """Return the schema, which must have the type object; `{}` does not."""
    if isinstance(one.parameters, UnsetType):
        return _NO_PARAMETERS
    try:
        schema = read_object(one.parameters)
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be a JSON schema", param=field) from exc
    if "type" in schema:
        return one.parameters
    return {"type": _OBJECT, **schema}


def _choice(request: ChatRequest) -> Mapping[str, object] | Raw | None:
    """Encode the tool choice; `None` if the model may choose, the default."""
    single = request.parallel_tool_calls is False
    choice = request.tool_choice
    if isinstance(choice, UnsetType):
        return {"type": "auto", "disable_parallel_tool_use": True} if single else None
    if choice.mode == "opaque":
        return _own_choice(choice, single=single)
    body: Block = {"type": CHOICES[choice.mode]}
    if choice.mode == "named":
        body["name"] = choice.name
    if single and choice.mode != "none":
        body["disable_parallel_tool_use"] = True
    return body


def _own_choice(choice: ToolChoice, *, single: bool) -> Mapping[str, object] | Raw:
    if not isinstance(choice.raw, Raw):
        raise InvalidRequest("tool_choice: must be a mode or name a function", param="tool_choice")
    try:
        fields = read_object(choice.raw)
    except UNREADABLE as exc:
        raise InvalidRequest("tool_choice: must be an object", param="tool_choice") from exc
    if bytes(fields.get("type", NULL)) not in OWN_CHOICES:
        raise InvalidRequest(
            "tool_choice.type: this backend supports none, auto, required, a function's name, and "
            "its own any and tool",
            param="tool_choice.type",
        )
    return {**fields, "disable_parallel_tool_use": True} if single else choice.raw


def _add_thinking(body: Block, output: Block, request: ChatRequest, model: str) -> None:
    """output: the future `output_config`."""
    effort = request.reasoning_effort or ""
    if "thinking" in request.extra:
        raise InvalidRequest(
            "thinking: is also sent as reasoning_effort; send only one", param="thinking"
        )
    if effort == "none":
        body["thinking"] = {"type": "disabled"}
        return
    if effort not in EFFORTS:
        raise InvalidRequest(
            f"reasoning_effort: this backend supports none, {', '.join(EFFORTS)}",
            param="reasoning_effort",
        )
    if not thinks_by_budget(model):
        body["thinking"] = {"type": "adaptive"}
        output["effort"] = "low" if effort == "minimal" else effort
        return
    budget = budget_of(effort, request.sampling.max_tokens or 0)
    if budget is None:
        raise InvalidRequest(
            "reasoning_effort: this model needs a thinking budget of at least "
            f"{LEAST_BUDGET} tokens; send max_tokens over {LEAST_BUDGET}, or reasoning_effort none",
            param="reasoning_effort",
        )
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _format(form: ResponseFormat | UnsetType) -> Block | None:
    """Return `None` for plain text, and for `json_object`, which is handled by a tool."""
    if isinstance(form, UnsetType) or form.type in ("text", "json_object"):
        return None
    if form.type != "json_schema":
        raise InvalidRequest(
            "response_format.type: this backend supports text, json_object and json_schema",
            param="response_format.type",
        )
    if isinstance(form.schema, UnsetType):
        field = "response_format.json_schema.schema"
        raise InvalidRequest(f"{field}: is required by this backend", param=field)
    return {"type": "json_schema", "schema": form.schema}


def _add_extra(body: Block, extra: Mapping[str, Raw]) -> None:
    """Add extra fields. Raises InvalidRequest if a value is sent under both of its names."""
    tier = bytes(extra.get("service_tier", NULL))
    if tier[:1] == b'"' and tier not in TIERS:
        raise InvalidRequest(
            "service_tier: this backend supports auto and standard_only", param="service_tier"
        )
    for name, raw in extra.items():
        if name == BETA:
            continue
        ours = body.get(name)
        body[name] = raw if ours is None else _merged(name, cast("Block", ours), raw)


def _merged(name: str, ours: Block, raw: Raw) -> Block:
    try:
        theirs = read_object(raw)
    except UNREADABLE as exc:
        raise InvalidRequest(f"{name}: must be an object", param=name) from exc
    for key in ours.keys() & theirs.keys():
        field = f"{name}.{key}"
        raise InvalidRequest(
            f"{field}: is also sent under OpenAI's name; send only one", param=field
        )
    return {**ours, **theirs}
