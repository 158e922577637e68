"""Encodes requests for Ollama's `/api/chat`, `/api/generate` and `/api/embed`.

Sampling is under `options`, a message's text is one string with its images in a list, tool
arguments are an object, and a tool's answer names the function. By default Ollama streams, cuts
text that is too long for the context and drops the start of a conversation that outgrows it; each
body turns this off, unless the client speaks Ollama's dialect, because no other does any of it.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from collections.abc import Mapping
from typing import cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.adapters.data_uri import inline_image
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.adapters.openai.encode import tool
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    ImagePart,
    Message,
    OpaqueTool,
    Part,
    ResponseFormat,
    TextPart,
    ToolCall,
    text_of,
    thinking_of,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling

Body = dict[str, object]

OPTIONS: Mapping[str, str] = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "seed": "seed",
    "stop": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repetition_penalty": "repeat_penalty",
}
"""Our names -> names under `options`."""

ROLES: Mapping[str, str] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

EFFORTS: Mapping[str, bool | str] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
}
"""`reasoning_effort` -> `think`."""

DIALECT = "ollama"

_WHOLE: Body = {"truncate": False, "shift": False}
"""Other clients than Ollama's do not expect that a text is cut."""

_encode = msgspec.json.Encoder().encode


def chat_body(request: ChatRequest, model: str, context: int | None = None) -> bytes:
    """Raises InvalidRequest for unsupported message fields, and for arguments not in JSON.

    context: `num_ctx`, unless the client sends its own; `None`: the server's.
    """
    names = {call.id: call.name for one in request.messages for call in one.tool_calls}
    body: Body = {
        "model": model,
        "messages": [_message(one, place, names) for place, one in enumerate(request.messages)],
        "stream": request.stream,
    }
    own = request.original is not None and request.original.dialect == DIALECT
    if not own:
        body |= _WHOLE
    if request.tools:
        if any(isinstance(one, OpaqueTool) for one in request.tools):
            raise InvalidRequest("tools: this backend accepts only functions", param="tools")
        body["tools"] = [tool(one) for one in request.tools]
    form = _format(request.response_format)
    if form is not None:
        body["format"] = form
    if not isinstance(request.reasoning_effort, UnsetType):
        body["think"] = _own_think(request) if own else _think(request)
    _add_sampling(body, request.sampling)
    _add_extra(body, request.extra)
    _add_context(body, context)
    return _encode(body)


def completion_body(request: CompletionRequest, model: str, context: int | None = None) -> bytes:
    """Encode a prompt, unchanged unless a template or fill in the middle is requested.

    Raises InvalidRequest for anything but one text: an empty one is a command to load the model.
    """
    prompt = request.prompts[0]
    if len(request.prompts) != 1 or not isinstance(prompt, str):
        raise InvalidRequest("prompt: this backend accepts a single text prompt", param="prompt")
    if not prompt:
        raise InvalidRequest("prompt: this backend does not accept an empty prompt", param="prompt")
    body: Body = {
        "model": model,
        "prompt": prompt,
        "stream": request.stream,
    }
    if request.dialect != DIALECT:
        body |= _WHOLE
    if request.prompt_template:
        body["template"] = request.prompt_template
    if request.suffix:
        body["suffix"] = request.suffix
    elif not (request.template or request.prompt_template):
        # Thinking would be separated from the text, but a completion includes it.
        body |= {"raw": True, "think": False}
    _add_sampling(body, request.sampling)
    _add_extra(body, request.extra)
    _add_context(body, context)
    return _encode(body)


def embeddings_body(request: EmbeddingsRequest, model: str, context: int | None = None) -> bytes:
    """Encode inputs, always as a list, because a lone empty string counts as no input."""
    if not all(isinstance(one, str) for one in request.inputs):
        raise InvalidRequest("input: this backend accepts only texts", param="input")
    body: Body = {"model": model, "input": request.inputs}
    if request.dialect != DIALECT:
        body["truncate"] = False
    if not isinstance(request.dimensions, UnsetType):
        body["dimensions"] = request.dimensions
    _add_extra(body, request.extra)
    _add_context(body, context)
    return _encode(body)


def _message(one: Message, place: int, names: Mapping[str, str]) -> Body:
    """names: the functions that were called before, by the call's id."""
    body: Body = {"role": ROLES[one.role], "content": text_of(one)}
    if isinstance(one.content, tuple):
        images = [
            _image(part, f"messages[{place}].content[{index}]")
            for index, part in enumerate(one.content)
            if not isinstance(part, TextPart)
        ]
        if images:
            body["images"] = images
    if thinking := thinking_of(one):
        body["thinking"] = thinking
    if one.tool_calls:
        body["tool_calls"] = [_call(call, place, at) for at, call in enumerate(one.tool_calls)]
    if body["role"] == "tool":
        _add_called(body, one, names)
    elif one.name:
        field = f"messages[{place}].name"
        raise InvalidRequest(
            f"{field}: this backend does not support names; write the name into the text",
            param=field,
        )
    return body


def _image(part: Part, field: str) -> str:
    if not isinstance(part, ImagePart):
        raise InvalidRequest(f"{field}: this backend reads text and images", param=field)
    if part.detail not in (UNSET, "auto"):
        raise InvalidRequest(
            f"{field}.image_url.detail: this backend supports only auto; leave it out",
            param=f"{field}.image_url.detail",
        )
    return inline_image(part, f"{field}.image_url.url").data


def _add_called(body: Body, one: Message, names: Mapping[str, str]) -> None:
    """Encode a result; templates need the function's name, and some also the call's id."""
    called = one.tool_call_id
    name = one.name if isinstance(called, UnsetType) else names.get(called, one.name)
    if name:
        body["tool_name"] = name
    if called:
        body["tool_call_id"] = called


def _call(call: ToolCall, place: int, at: int) -> Body:
    field = f"messages[{place}].tool_calls[{at}].function.arguments"
    try:
        arguments = read_object(call.arguments.strip() or "{}")
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be a JSON object in a string", param=field) from exc
    function: Body = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "function": function} if call.id else {"function": function}


def _format(form: ResponseFormat | UnsetType) -> Raw | str | None:
    """Return `None` for plain text."""
    if isinstance(form, UnsetType) or form.type == "text":
        return None
    if form.type == "opaque":
        raise InvalidRequest(
            "response_format: this backend supports text, json_object and json_schema",
            param="response_format",
        )
    return form.schema if isinstance(form.schema, Raw) else "json"


def _own_think(request: ChatRequest) -> object:
    """Return the word of a client of Ollama's API, unless a repair has changed what it means.

    `true` is not the same as a level there: a model takes one or the other.
    """
    original = request.original
    if original is None or request.reasoning_effort != original.read.reasoning_effort:
        return _think(request)
    return original.fields.get("think") or _think(request)


def _think(request: ChatRequest) -> bool | str:
    effort = request.reasoning_effort or ""
    if "think" in request.extra:
        raise InvalidRequest(
            "think: is also sent as reasoning_effort; send only one", param="think"
        )
    if effort not in EFFORTS:
        raise InvalidRequest(
            f"reasoning_effort: this backend supports {', '.join(EFFORTS)}",
            param="reasoning_effort",
        )
    return EFFORTS[effort]


def _add_sampling(body: Body, sampling: Sampling) -> None:
    """Encode options without an empty list of stop strings, which would replace the model's."""
    options: Body = {}
    for field, name in OPTIONS.items():
        value: object = getattr(sampling, field)
        if value is not UNSET and value is not None and value != ():
            options[name] = value
    if options:
        body["options"] = options
    if sampling.logprobs is True:
        body["logprobs"] = True
    if not isinstance(sampling.top_logprobs, UnsetType):
        body["top_logprobs"] = sampling.top_logprobs


def _add_extra(body: Body, extra: Mapping[str, Raw]) -> None:
    """Merge the client's own Ollama fields, which override the adapter's defaults."""
    for name, raw in extra.items():
        body[name] = _merged(body.get(name), raw) if name == "options" else raw


def _add_context(body: Body, context: int | None) -> None:
    """Add the operator's context: all requests have it, because another one reloads the model."""
    if context is None:
        return
    options = body.get("options", {})
    known = read_object(options) if isinstance(options, Raw) else cast("Body", options)
    body["options"] = {"num_ctx": context, **known}


def _merged(ours: object, raw: Raw) -> Raw | Body:
    """Raises InvalidRequest if an option is sent under both of its names."""
    if ours is None:
        return raw
    try:
        theirs = read_object(raw)
    except UNREADABLE as exc:
        raise InvalidRequest("options: must be an object", param="options") from exc
    merged: Body = {**theirs}
    for name, value in cast("Body", ours).items():
        if name in theirs:
            field = next(field for field, wire in OPTIONS.items() if wire == name)
            raise InvalidRequest(
                f"options.{name}: is also sent as {field}; send only one", param=f"options.{name}"
            )
        merged[name] = value
    return merged
