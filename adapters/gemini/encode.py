"""Encodes chats for Gemini's generateContent; bodies contain only what was sent.

https://ai.google.dev/api/generate-content#request-body
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.adapters.gemini.messages import SKIPPED, conversation
from strowger_gateway.adapters.gemini.original_fields import (
    DIALECT,
    effort_changed,
    format_changed,
    keeps_marks,
    unchanged_config,
    unchanged_fields,
    with_signatures,
)
from strowger_gateway.adapters.gemini.parts import Body
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import FunctionTool, OpaqueTool, ResponseFormat, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest

SAMPLING: Mapping[str, str] = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "stop": "stopSequences",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "top_logprobs": "logprobs",
}
"""Our names -> names in `generationConfig`."""

CONFIG: Final = frozenset(
    {
        *("audioTimestamp", "enableEnhancedCivicAnswers", "imageConfig", "mediaResolution"),
        *("responseMimeType", "responseModalities", "speechConfig", "thinkingConfig"),
        "translationConfig",
    }
)
"""Gemini's own fields that are sent inside `generationConfig`."""

OWN: Final = frozenset(
    {
        "cachedContent",
        "continuationToken",
        "labels",
        "safetySettings",
        "serviceTier",
        "toolConfig",
    }
)
"""Gemini's own top-level fields. The adapter also adds to `toolConfig`."""

MODES: Mapping[str, str] = {"none": "NONE", "auto": "AUTO", "required": "ANY", "named": "ANY"}

BUILT_IN: Mapping[str, str] = {
    "google_search": "googleSearch",
    "web_search": "googleSearch",
    "google_maps": "googleMaps",
    "url_context": "urlContext",
    "code_execution": "codeExecution",
}
"""Types of tools that Google executes -> their names."""

LEVELS: Mapping[str, str] = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
}
"""`reasoning_effort` -> `thinkingLevel`, for Gemini 3 and later, which always think."""

BUDGETS: Mapping[str, int] = {
    "none": 0,
    "minimal": 1024,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
}
"""`reasoning_effort` -> `thinkingBudget`, up to Gemini 2.5, in tokens.
https://ai.google.dev/gemini-api/docs/openai#thinking"""

OF_FUNCTIONS: Final = frozenset({"behavior", "response", "responseJsonSchema"})
"""Google's own members of a function."""

COUNTED: Final = frozenset({"contents", "generationConfig", "systemInstruction", "tools"})
"""What Vertex AI counts."""

_OLDER: Final = re.compile(r"(.*/)?gemini-[12]\b")
_GEMINI: Final = re.compile(r"(.*/)?gemini-")

_encode = msgspec.json.Encoder().encode


def is_older(model: str) -> bool:
    """Return whether it is a model up to Gemini 2.5."""
    return _OLDER.match(model) is not None


def chat_body(request: ChatRequest, model: str, *, vertex: bool = False) -> bytes:
    """Raises InvalidRequest, naming the path, for anything that Gemini does not support.

    AI Studio takes functions and its own tools together only if it may show what its own did.
    https://ai.google.dev/gemini-api/docs/tool-combination
    """
    older = is_older(model)
    proofs = not older and _GEMINI.match(model) is not None
    dialogue = conversation(request.messages, proofs=proofs)
    body: Body = {"contents": dialogue.contents}
    if dialogue.system:
        body["systemInstruction"] = {"parts": dialogue.system}
    if request.tools:
        body["tools"] = _tools(request)
    calling = _calling(request)
    settings: Body = {"functionCallingConfig": calling} if calling else {}
    if not vertex and _is_mixed(request):
        settings["includeServerSideToolInvocations"] = True
    if settings:
        body["toolConfig"] = settings
    kept = unchanged_fields(request)
    if proofs and "contents" in kept:
        kept["contents"] = with_signatures(kept["contents"], SKIPPED)
    config: Body = {**_config(request, older=older), **unchanged_config(request, SAMPLING)}
    for name, raw in request.extra.items():
        if name in kept or name in config:
            continue
        whole = _tool_config(settings, raw) if name == "toolConfig" and settings else raw
        (config if name in CONFIG else body)[name] = whole
    body |= kept
    if config:
        body["generationConfig"] = config
    return _encode(body)


def count_body(request: ChatRequest, model: str, path: str) -> bytes:
    """Encode a chat for countTokens. path: of the model in AI Studio; "" for Vertex AI.

    https://ai.google.dev/api/tokens
    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.publishers.models/countTokens
    """
    body = read_object(chat_body(request, model, vertex=not path))
    if path:
        return _encode({"generateContentRequest": {"model": path, **body}})
    return _encode({name: raw for name, raw in body.items() if name in COUNTED})


def _tools(request: ChatRequest) -> list[Body]:
    """Return all functions in one entry, then one entry for each of Google's own tools."""
    functions: list[Body] = []
    others: list[Body] = []
    for place, tool in enumerate(request.tools or ()):
        match tool:
            case FunctionTool():
                functions.append(_function(tool))
            case OpaqueTool():
                others.append(_built_in(tool, f"tools[{place}]"))
    return [{"functionDeclarations": functions}, *others] if functions else others


def _function(tool: FunctionTool) -> Body:
    function: Body = {"name": tool.name}
    if not isinstance(tool.description, UnsetType):
        function["description"] = tool.description
    if not isinstance(tool.parameters, UnsetType):
        function["parametersJsonSchema"] = tool.parameters
    return keeps_marks(function, tool.marks, OF_FUNCTIONS)


def _built_in(tool: OpaqueTool, field: str) -> Body:
    """Fields next to the type must be Google's; OpenAI's search settings are rejected."""
    if tool.type not in BUILT_IN and tool.dialect == DIALECT:
        return {name: raw for name, raw in read_object(tool.raw).items() if name != "type"}
    if tool.type not in BUILT_IN:
        raise InvalidRequest(
            f"{field}.type: this backend supports function, {', '.join(BUILT_IN)}",
            param=f"{field}.type",
        )
    settings = {name: raw for name, raw in read_object(tool.raw).items() if name != "type"}
    if tool.type == "web_search" and settings:
        where = f"{field}.{next(iter(settings))}"
        raise InvalidRequest(
            f"{where}: this backend has no such setting; leave it out", param=where
        )
    return {BUILT_IN[tool.type]: settings}


def _calling(request: ChatRequest) -> Body:
    """Return `functionCallingConfig`, {} for Gemini's default.

    A function with `strict`, whose arguments must fit its schema, sets the mode VALIDATED for all
    functions; in mode ANY they always fit. https://ai.google.dev/api/caching#Mode
    """
    choice = request.tool_choice
    if not isinstance(choice, UnsetType) and choice.mode != "auto":
        return _choice(choice)
    if any(isinstance(tool, FunctionTool) and tool.strict for tool in request.tools or ()):
        return {"mode": "VALIDATED"}
    return {} if isinstance(choice, UnsetType) else _choice(choice)


def _is_mixed(request: ChatRequest) -> bool:
    kinds = {type(one) for one in request.tools or ()}
    return len(kinds) > 1


def _tool_config(settings: Body, raw: Raw) -> Body:
    """Return the client's own `toolConfig`, with the settings from tool_choice and tools."""
    try:
        fields = read_object(raw)
    except UNREADABLE as exc:
        raise InvalidRequest("toolConfig: must be an object", param="toolConfig") from exc
    if "functionCallingConfig" in fields and "functionCallingConfig" in settings:
        field = "toolConfig.functionCallingConfig"
        raise InvalidRequest(
            f"{field}: is also sent as tool_choice or strict; send only one", param=field
        )
    return {**settings, **fields}


def _choice(choice: ToolChoice) -> Body:
    if choice.mode not in MODES:
        raise InvalidRequest(
            "tool_choice: this backend supports none, auto, required and a function's name",
            param="tool_choice",
        )
    config: Body = {"mode": MODES[choice.mode]}
    if choice.mode == "named":
        config["allowedFunctionNames"] = [choice.name]
    return config


def _config(request: ChatRequest, *, older: bool) -> Body:
    config: Body = {}
    for field, name in SAMPLING.items():
        value: object = getattr(request.sampling, field)
        if value is not UNSET and value is not None and value != ():
            config[name] = value
    if request.sampling.logprobs is True:
        config["responseLogprobs"] = True
    if format_changed(request) and not isinstance(request.response_format, UnsetType):
        config |= _format(request.response_format)
    if effort_changed(request) and not isinstance(request.reasoning_effort, UnsetType):
        if "thinkingConfig" in request.extra:
            raise InvalidRequest(
                "thinkingConfig: is also sent as reasoning_effort; send only one",
                param="thinkingConfig",
            )
        config["thinkingConfig"] = _thinking(request.reasoning_effort, older=older)
    return config


def _format(form: ResponseFormat) -> Body:
    if form.type == "text":
        return {}
    if form.type == "opaque":
        raise InvalidRequest(
            "response_format: this backend supports text, json_object and json_schema",
            param="response_format",
        )
    config: Body = {"responseMimeType": "application/json"}
    if not isinstance(form.schema, UnsetType):
        config["responseJsonSchema"] = form.schema
    return config


def _thinking(effort: str, *, older: bool) -> Body:
    """Encode the effort; a client that sets it also receives the reasoning."""
    known: Mapping[str, object] = BUDGETS if older else LEVELS
    if effort not in known:
        always = ", which always thinks," if effort == "none" else ""
        raise InvalidRequest(
            f"reasoning_effort: this model{always} supports {', '.join(known)}",
            param="reasoning_effort",
        )
    if not older:
        return {"thinkingLevel": known[effort], "includeThoughts": True}
    budget: Body = {"thinkingBudget": known[effort]}
    return budget if effort == "none" else {**budget, "includeThoughts": True}
