"""Encodes chats for Bedrock's Converse and ConverseStream, whose bodies are the same.

Fields that every model accepts are under `inferenceConfig`; fields of some models are under
`additionalModelRequestFields`, in the format of the model's vendor.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.adapters.anthropic.asked_thinking import asked
from strowger_gateway.adapters.anthropic.encode import betas
from strowger_gateway.adapters.anthropic.kept_turns import ordered_blocks
from strowger_gateway.adapters.bedrock.content_blocks import Block, cache_point, marks_of, tool_name
from strowger_gateway.adapters.bedrock.messages import NO_ORDER, conversation
from strowger_gateway.adapters.bedrock.reasoning_effort import CLAUDE, Reasoning, reasoning
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    OpaqueTool,
    ResponseFormat,
    Tool,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

INFERENCE: Final[Mapping[str, str]] = {
    "max_tokens": "maxTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}
"""Our names -> names under `inferenceConfig`."""

OWN: Final = frozenset(
    {
        "guardrailConfig",
        "additionalModelResponseFieldPaths",
        "promptVariables",
        "performanceConfig",
        "serviceTier",
    }
)
"""Converse's own fields, sent unchanged."""

MERGED: Final = frozenset({"additionalModelRequestFields", "requestMetadata", "outputConfig"})
"""Converse's own fields to which the adapter also adds."""

THINKING: Final = frozenset({"reasoningConfig", "reasoning_config", "thinking"})
MODEL_FIELDS: Final = THINKING | {"anthropic_beta"}
"""Fields of some models, sent under `additionalModelRequestFields`."""

COUNTED: Final = frozenset({"additionalModelRequestFields", "messages", "system", "toolConfig"})

ANY_OBJECT: Final = '{"type":"object"}'
NO_PARAMETERS: Final = Raw(b'{"type":"object","properties":{}}')

_encode = msgspec.json.Encoder().encode
_texts = msgspec.json.Decoder(dict[str, str]).decode


def count_body(request: ChatRequest, model: str) -> bytes:
    """Encode a chat for CountTokens, which takes only what changes the prompt.

    https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html
    """
    body = read_object(converse_body(request, model))
    return _encode({"input": {"converse": {k: raw for k, raw in body.items() if k in COUNTED}}})


def converse_body(request: ChatRequest, model: str) -> bytes:
    """Raises InvalidRequest, naming the field, for anything that Converse does not support."""
    order = ordered_blocks(request) if CLAUDE.search(model) else NO_ORDER
    dialogue = conversation(request.messages, order)
    body: Block = {"messages": dialogue.turns}
    if dialogue.system:
        body["system"] = dialogue.system
    tools = _tool_config(request, tools_used=dialogue.tools)
    if tools is not None:
        body["toolConfig"] = tools
    inference = _inference(request.sampling)
    if inference:
        body["inferenceConfig"] = inference
    thinks = _reasoning(request, model)
    for name, ours in (
        ("additionalModelRequestFields", {**_model_fields(request, model), **thinks.additional}),
        ("outputConfig", _output(request, thinks.effort)),
        ("requestMetadata", _metadata(request)),
    ):
        merged = _merged(name, ours, request.extra.get(name))
        if merged:
            body[name] = merged
    body |= {name: raw for name, raw in request.extra.items() if name in OWN}
    return _encode(body)


def _inference(sampling: Sampling) -> Block:
    fields: Block = {}
    for field, name in INFERENCE.items():
        value: object = getattr(sampling, field)
        if value is not UNSET and value is not None and value != ():
            fields[name] = value
    return fields


def _model_fields(request: ChatRequest, model: str) -> Block:
    """Return model-specific fields; `top_k` has different names for Nova, Cohere and others."""
    fields: Block = {name: raw for name, raw in request.extra.items() if name in MODEL_FIELDS}
    named = betas(request) if CLAUDE.search(model) else ""
    if named and "anthropic_beta" not in fields:
        fields["anthropic_beta"] = [one for one in re.split("[ ,]+", named) if one]
    top_k = request.sampling.top_k
    if not isinstance(top_k, UnsetType) and top_k is not None:
        if "amazon.nova" in model:
            fields["inferenceConfig"] = {"topK": top_k}
        elif "cohere." in model:
            fields["k"] = top_k
        else:
            fields["top_k"] = top_k
    return fields


def _reasoning(request: ChatRequest, model: str) -> Reasoning:
    """Raises InvalidRequest if the client also sends it in the model's own format."""
    if CLAUDE.search(model):
        own = asked(request)
        if own.native:
            # Of other types the object is a field outside the schema, which is sent as it is.
            thinks = own.kind in ("adaptive", "enabled")
            thinking: Block = {"thinking": own.thinking} if thinks else {}
            return Reasoning(additional=thinking, effort=own.effort)
    if not request.reasoning_effort:
        return Reasoning()
    max_tokens = request.sampling.max_tokens
    bound = max_tokens if isinstance(max_tokens, int) else None
    thinks = reasoning(request.reasoning_effort, model, bound)
    for name in THINKING & request.extra.keys() if thinks.additional else ():
        raise InvalidRequest(f"{name}: is also sent as reasoning_effort; send only one", param=name)
    return thinks


def _output(request: ChatRequest, effort: str) -> Block:
    fields: Block = {}
    form = _text_format(request.response_format)
    if form is not None:
        fields["textFormat"] = form
    if effort:
        fields["effort"] = effort
    return fields


def _text_format(form: ResponseFormat | UnsetType) -> Block | None:
    """Return `None` for plain text. `strict` has no counterpart: schemas are always strict."""
    if isinstance(form, UnsetType) or form.type == "text":
        return None
    if form.type == "opaque":
        raise InvalidRequest(
            "response_format: this backend supports text, json_object and json_schema",
            param="response_format",
        )
    schema: Block = {
        "schema": bytes(form.schema).decode() if isinstance(form.schema, Raw) else ANY_OBJECT
    }
    if form.name:
        schema["name"] = form.name
    if form.description:
        schema["description"] = form.description
    return {"type": "json_schema", "structure": {"jsonSchema": schema}}


def _metadata(request: ChatRequest) -> Block:
    """Return `metadata` and `user`, which AWS writes to the account's invocation logs."""
    fields: Block = {}
    if isinstance(request.metadata, Raw):
        try:
            fields |= _texts(request.metadata)
        except UNREADABLE as exc:
            raise InvalidRequest(
                "metadata: must be an object with string values", param="metadata"
            ) from exc
    if request.user:
        if "user" in fields:
            raise InvalidRequest("metadata.user: is also sent as user; send only one", param="user")
        fields["user"] = request.user
    return fields


def _merged(name: str, ours: Block, theirs: Raw | None) -> Raw | Block:
    """Merge the client's own Converse fields with ours; {} for none."""
    if theirs is None:
        return ours
    if not ours:
        return theirs
    try:
        fields = read_object(theirs)
    except UNREADABLE as exc:
        raise InvalidRequest(f"{name}: must be an object", param=name) from exc
    for field in ours:
        if field in fields:
            raise InvalidRequest(
                f"{name}.{field}: is also sent under another name; send only one",
                param=f"{name}.{field}",
            )
    return {**fields, **ours}


def _tool_config(request: ChatRequest, *, tools_used: bool) -> Block | None:
    """Return `None` if there are no tools, or none may be used.

    Raises InvalidRequest for a conversation with calls but without the tools, which AWS would
    reject with a less helpful message.
    """
    choice = request.tool_choice
    forbidden = isinstance(choice, ToolChoice) and choice.mode == "none"
    if not request.tools or forbidden:
        if tools_used:
            field = "tool_choice" if forbidden else "tools"
            raise InvalidRequest(
                f"{field}: this backend requires usable tools with a conversation that contains "
                "tool calls",
                param=field,
            )
        return None
    config: Block = {
        "tools": [
            block for at, tool in enumerate(request.tools) for block in _tool(tool, f"tools[{at}]")
        ]
    }
    if isinstance(choice, ToolChoice):
        config["toolChoice"] = _choice(choice)
    return config


def _choice(choice: ToolChoice) -> Block:
    match choice:
        case ToolChoice(mode="auto"):
            return {"auto": {}}
        case ToolChoice(mode="required"):
            return {"any": {}}
        case ToolChoice(mode="named", name=str(name)):
            return {"tool": {"name": tool_name(name)}}
        case _:
            raise InvalidRequest(
                "tool_choice: this backend supports auto, required and the name of a function",
                param="tool_choice",
            )


def _tool(tool: Tool, field: str) -> list[Block]:
    if isinstance(tool, OpaqueTool):
        raise InvalidRequest(f"{field}: this backend accepts only functions", param=field)
    return [{"toolSpec": _spec(tool)}, *cache_point(marks_of(tool), field)]


def _spec(tool: FunctionTool) -> Block:
    parameters = tool.parameters if isinstance(tool.parameters, Raw) else NO_PARAMETERS
    spec: Block = {"name": tool_name(tool.name), "inputSchema": {"json": parameters}}
    if tool.description and tool.description.strip():
        spec["description"] = tool.description
    if isinstance(tool.strict, bool):
        spec["strict"] = tool.strict
    return spec
