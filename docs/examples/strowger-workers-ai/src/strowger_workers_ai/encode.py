"""Encodes requests for `/ai/run/MODEL`; the model itself is in the path.

A message is a role and a string. A schema is the value of `json_schema`, without name. A prompt is
wrapped in the model's template unless it is `raw`.
https://developers.cloudflare.com/workers-ai/models/llama-3.3-70b-instruct-fp8-fast/
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import task_of
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    ResponseFormat,
    TextPart,
    Tool,
    text_of,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
)
from strowger_gateway.schemas.sampling import Sampling

Body = dict[str, object]

SAMPLING = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
)
"""Fields that have the same name in both APIs."""

ROLES: Mapping[str, str] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

LARGEST_BATCH: Final = 100
NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')

_encode = msgspec.json.Encoder().encode


def body_of(request: Request) -> bytes:
    """Raises InvalidRequest, which names the field, if the API cannot express the request."""
    match request:
        case ChatRequest():
            body = _chat(request)
        case CompletionRequest():
            body = _completion(request)
        case EmbeddingsRequest():
            body = _embeddings(request)
        case _:
            raise InvalidRequest(f"this backend does not offer {task_of(request)}", param="model")
    return _encode({**body, **request.extra})


def _chat(request: ChatRequest) -> Body:
    names = {call.id: call.name for one in request.messages for call in one.tool_calls}
    body: Body = {
        "messages": [
            _message(one, f"messages[{place}]", names) for place, one in enumerate(request.messages)
        ],
        **_sampling(request.sampling),
        **_streamed(request.stream),
    }
    if request.tools:
        body["tools"] = _tools(request.tools)
    form = request.response_format
    if isinstance(form, ResponseFormat) and form.type != "text":
        if request.stream:
            raise InvalidRequest(
                "response_format: this backend does not stream JSON; leave stream out",
                param="response_format",
            )
        body["response_format"] = _format(form)
    return body


def _completion(request: CompletionRequest) -> Body:
    if len(request.prompts) != 1 or not isinstance(request.prompts[0], str):
        raise InvalidRequest("prompt: this backend accepts a single text prompt", param="prompt")
    return {
        "prompt": request.prompts[0],
        "raw": not request.template,
        **_sampling(request.sampling),
        **_streamed(request.stream),
    }


def _embeddings(request: EmbeddingsRequest) -> Body:
    if not all(isinstance(one, str) for one in request.inputs):
        raise InvalidRequest("input: this backend accepts only texts", param="input")
    return {"text": request.inputs}


def _streamed(stream: bool) -> Body:
    return {"stream": True} if stream else {}


def _sampling(sampling: Sampling) -> Body:
    values: Mapping[str, object] = {name: getattr(sampling, name) for name in SAMPLING}
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, UnsetType) and value is not None
    }


def _message(one: Message, field: str, names: Mapping[str, str]) -> Body:
    """names: function names by the ids of the calls."""
    if one.role not in ROLES:
        raise InvalidRequest(
            f"{field}.role: this backend supports {', '.join(ROLES)}", param=f"{field}.role"
        )
    if one.name and one.role != "tool":
        raise InvalidRequest(
            f"{field}.name: this backend does not support names; write the name into the text",
            param=f"{field}.name",
        )
    if isinstance(one.content, tuple):
        for place, part in enumerate(one.content):
            if not isinstance(part, TextPart):
                where = f"{field}.content[{place}]"
                raise InvalidRequest(f"{where}: this backend accepts only text", param=where)
    body: Body = {"role": ROLES[one.role], "content": text_of(one)}
    if one.tool_calls:
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments.strip() or "{}"},
            }
            for call in one.tool_calls
        ]
    if one.role == "tool":
        if not one.tool_call_id:
            where = f"{field}.tool_call_id"
            raise InvalidRequest(f"{where}: is required", param=where)
        body["tool_call_id"] = one.tool_call_id
        name = names.get(one.tool_call_id) or one.name
        if name:
            body["name"] = name
    return body


def _tools(tools: Sequence[Tool]) -> list[Body]:
    """Name, description and parameters are all required; an empty one has no effect."""
    found: list[Body] = []
    for place, tool in enumerate(tools):
        if not isinstance(tool, FunctionTool):
            raise InvalidRequest("tools: this backend accepts only functions", param="tools")
        if tool.strict is True:
            where = f"tools[{place}].function.strict"
            raise InvalidRequest(
                f"{where}: this backend does not enforce schemas; omit it",
                param=where,
            )
        function = {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": NO_PARAMETERS
            if isinstance(tool.parameters, UnsetType)
            else tool.parameters,
        }
        found.append({"type": "function", "function": function})
    return found


def _format(form: ResponseFormat) -> Body:
    if form.type == "opaque":
        raise InvalidRequest(
            "response_format: this backend supports text, json_object and json_schema",
            param="response_format",
        )
    schema: Body = {} if isinstance(form.schema, UnsetType) else {"json_schema": form.schema}
    return {"type": form.type, **schema}
