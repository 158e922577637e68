"""Encodes requests for Cohere's `/v2/chat` and `/v2/embed`.

Names differ (`p`, `k`, `stop_sequences`), a schema is sent with `json_object`, a named tool is sent
as the only one, and strictness is one switch for all tools. An embedding needs a purpose, and text
that is too long is rejected rather than cut.
https://docs.cohere.com/reference/chat, https://docs.cohere.com/reference/embed
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.adapters.openai.encode import part
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    thinking_of,
)
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling

Body = dict[str, object]

SAMPLING: Mapping[str, str] = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "seed": "seed",
    "stop": "stop_sequences",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "logprobs": "logprobs",
}
"""Our names -> the wire's."""

LARGEST_P: Final = 0.99
LARGEST_BATCH: Final = 96

ROLES: Mapping[str, str] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
EFFORTS: Mapping[str, Mapping[str, object]] = {
    "none": {"type": "disabled"},
    "minimal": {"type": "enabled", "token_budget": 512},
    "low": {"type": "enabled", "token_budget": 1024},
    "medium": {"type": "enabled", "token_budget": 4096},
    "high": {"type": "enabled"},
}
"""`reasoning_effort` -> `thinking`. Cohere has a token limit for thinking instead of levels."""

INPUT_TYPES = frozenset({"search_document", "search_query", "classification", "clustering"})
STORED: Final = "search_document"

NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')

_encode = msgspec.json.Encoder().encode


def chat_body(request: ChatRequest, model: str) -> bytes:
    """Raises InvalidRequest for unsupported message fields and combinations."""
    body: Body = {
        "model": model,
        "messages": [_message(one, place) for place, one in enumerate(request.messages)],
        "stream": request.stream,
    }
    _add_sampling(body, request.sampling)
    if request.tools:
        _add_tools(body, request.tools, request.tool_choice)
    elif isinstance(request.tool_choice, ToolChoice) and request.tool_choice.mode != "auto":
        raise InvalidRequest("tool_choice: requires tools", param="tool_choice")
    _add_format(body, request)
    if not isinstance(request.reasoning_effort, UnsetType):
        body["thinking"] = _thinking(request)
    body.update(request.extra)
    return _encode(body)


def embeddings_body(request: EmbeddingsRequest, model: str) -> bytes:
    """model: `NAME`, or `NAME/INPUT_TYPE` with the purpose of the vectors, set by the operator.

    Raises InvalidRequest for tokens and for more inputs than a request may have.
    """
    inputs = request.inputs
    if not all(isinstance(one, str) for one in inputs):
        raise InvalidRequest("input: this backend accepts only texts", param="input")
    if len(inputs) > LARGEST_BATCH:
        raise InvalidRequest(
            f"input: has {len(inputs)} entries, this backend accepts {LARGEST_BATCH} at a time",
            param="input",
        )
    name, purpose = name_and_purpose(model)
    body: Body = {
        "model": name,
        "input_type": purpose,
        "texts": inputs,
        "embedding_types": ("float",),
        "truncate": "NONE",
    }
    if not isinstance(request.dimensions, UnsetType):
        body["output_dimension"] = request.dimensions
    body.update(request.extra)
    return _encode(body)


def name_and_purpose(model: str) -> tuple[str, str]:
    """Split `NAME/INPUT_TYPE`. The API requires a purpose, and clients rarely send one."""
    name, _, purpose = model.rpartition("/")
    return (name, purpose) if purpose in INPUT_TYPES else (model, STORED)


def _message(one: Message, place: int) -> Body:
    field = f"messages[{place}]"
    if one.role not in ROLES:
        raise InvalidRequest(
            f"{field}.role: this backend supports {', '.join(ROLES)}", param=f"{field}.role"
        )
    if one.name and one.role != "tool":
        raise InvalidRequest(
            f"{field}.name: this backend does not support names; write the name into the text",
            param=f"{field}.name",
        )
    body: Body = {"role": ROLES[one.role]}
    content = _content(one, field)
    thinking = thinking_of(one)
    if one.tool_calls:
        body["tool_calls"] = [_call(call) for call in one.tool_calls]
        if thinking:
            body["tool_plan"] = thinking
    elif thinking:
        texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [{"type": "thinking", "thinking": thinking}, *texts]
    if content or not one.tool_calls:
        body["content"] = content
    if one.role == "tool":
        if not one.tool_call_id:
            raise InvalidRequest(
                f"{field}.tool_call_id: is required", param=f"{field}.tool_call_id"
            )
        body["tool_call_id"] = one.tool_call_id
    return body


def _content(one: Message, field: str) -> str | Sequence[object]:
    if not isinstance(one.content, tuple):
        return one.content or ""
    pieces: list[object] = []
    for index, piece in enumerate(one.content):
        if isinstance(piece, TextPart):
            pieces.append({"type": "text", "text": piece.text})
        elif isinstance(piece, ImagePart):
            pieces.append(part(piece))
        else:
            where = f"{field}.content[{index}]"
            raise InvalidRequest(f"{where}: this backend reads text and images", param=where)
    return pieces


def _call(call: ToolCall) -> Body:
    function = {"name": call.name, "arguments": call.arguments.strip() or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _add_sampling(body: Body, sampling: Sampling) -> None:
    for field, name in SAMPLING.items():
        value: object = getattr(sampling, field)
        if isinstance(value, UnsetType) or value is None or value == ():
            continue
        body[name] = value
    if not isinstance(sampling.top_p, UnsetType) and sampling.top_p > LARGEST_P:
        body["p"] = LARGEST_P


def _add_tools(body: Body, tools: Sequence[Tool], choice: ToolChoice | UnsetType) -> None:
    functions = [tool for tool in tools if isinstance(tool, FunctionTool)]
    if len(functions) != len(tools):
        raise InvalidRequest("tools: this backend accepts only functions", param="tools")
    if isinstance(choice, ToolChoice):
        functions = _chosen(body, functions, choice)
    body["tools"] = [_tool(one) for one in functions]
    if any(one.strict for one in functions):
        body["strict_tools"] = True


def _chosen(body: Body, tools: list[FunctionTool], choice: ToolChoice) -> list[FunctionTool]:
    """Return the tools that may be called, one if one is named. `auto` is the default."""
    match choice.mode:
        case "auto":
            return tools
        case "none" | "required":
            body["tool_choice"] = choice.mode.upper()
            return tools
        case "named":
            named = [one for one in tools if one.name == choice.name]
            if not named:
                raise InvalidRequest(
                    f"tool_choice: {choice.name!r} is not one of the tools", param="tool_choice"
                )
            body["tool_choice"] = "REQUIRED"
            return named
        case "opaque":
            raise InvalidRequest(
                "tool_choice: this backend supports none, auto, required or a function",
                param="tool_choice",
            )


def _tool(one: FunctionTool) -> Body:
    function: Body = {
        "name": one.name,
        "parameters": NO_PARAMETERS if isinstance(one.parameters, UnsetType) else one.parameters,
    }
    if not isinstance(one.description, UnsetType):
        function["description"] = one.description
    return {"type": "function", "function": function}


def _add_format(body: Body, request: ChatRequest) -> None:
    form = request.response_format
    if isinstance(form, UnsetType) or form.type == "text":
        return
    if form.type == "opaque":
        raise InvalidRequest(
            "response_format: this backend supports text, json_object and json_schema",
            param="response_format",
        )
    if request.tools or "documents" in request.extra:
        raise InvalidRequest(
            "response_format: this backend does not combine it with tools or documents",
            param="response_format",
        )
    sent: Body = {"type": "json_object"}
    if isinstance(form.schema, Raw):
        sent["json_schema"] = form.schema
    body["response_format"] = sent


def _thinking(request: ChatRequest) -> Mapping[str, object]:
    effort = request.reasoning_effort or ""
    if "thinking" in request.extra:
        raise InvalidRequest(
            "thinking: is also sent as reasoning_effort; send only one", param="thinking"
        )
    if effort not in EFFORTS:
        raise InvalidRequest(
            f"reasoning_effort: this backend supports {', '.join(EFFORTS)}",
            param="reasoning_effort",
        )
    return EFFORTS[effort]
