"""Ollama's request format, with the type of every field.

A null counts as absent, so `None` means either. Ranges are the backends': Ollama itself checks
almost none, and its options are hints to the sampler.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import MODEL_NAME
from strowger_gateway.gateway.surfaces.openai.wire import FunctionName, Model, Natural

KeepAlive = float | str
"""Seconds, or a duration such as `5m`; 0 unloads, a negative one keeps the model for ever."""

Think = bool | str
Images = tuple[str, ...]
TopLogprobs = Annotated[int, Meta(ge=0, le=20)]


class _Loading(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Common to all requests. options: of the sampler and of the server, by name."""

    model: Model | None = None
    options: Raw | UnsetType = UNSET
    keep_alive: KeepAlive | None = None


class _Generating(_Loading, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """format: `"json"`, or a JSON schema. shift: drop the beginning of a text that grows too long.

    truncate: drop the beginning of a prompt that is too long.
    """

    stream: bool | None = None
    format: Raw | UnsetType = UNSET
    think: Think | None = None
    truncate: bool | None = None
    shift: bool | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None


class OllamaChatWire(_Generating, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`POST /api/chat`. Without messages it loads the model, or unloads it."""

    messages: tuple[Raw, ...] | None = None
    tools: tuple[Raw, ...] | None = None


class OllamaGenerateWire(
    _Generating, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False
):
    """`POST /api/generate`. Without a prompt it loads the model, or unloads it.

    suffix:   fill in the middle. raw: the prompt is not put into the model's template.
    template: replaces the model's. context: of the answer to the previous request.
    """

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: Raw | UnsetType = UNSET
    raw: bool | None = None
    images: Images | None = None


class EmbedWire(_Loading, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`POST /api/embed`. truncate: cut texts that are too long."""

    input: str | tuple[str, ...] | None = None
    truncate: bool | None = None
    dimensions: Natural | None = None


class EmbeddingWire(_Loading, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`POST /api/embeddings`, the older form: one text, one vector."""

    prompt: str | None = None


class CalledWire(Struct, frozen=True, kw_only=True, gc=False):
    """arguments: an object; some clients send it as text. index: of the call in its message."""

    name: FunctionName
    arguments: Raw | UnsetType = UNSET
    index: int | None = None


class CallWire(Struct, frozen=True, kw_only=True, gc=False):
    function: CalledWire
    id: str | None = None
    type: str | None = None


class MessageWire(Struct, frozen=True, kw_only=True, gc=False):
    """tool_name: whose result it is, of role `tool`; older clients write `name`."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: Images | None = None
    tool_calls: tuple[CallWire, ...] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    name: str | None = None


class FunctionWire(Struct, frozen=True, kw_only=True, gc=False):
    """parameters: a JSON schema."""

    name: FunctionName
    description: str | None = None
    parameters: Raw | UnsetType = UNSET


class ToolWire(Struct, frozen=True, kw_only=True, gc=False):
    function: FunctionWire
    type: str | None = None


class OptionsWire(Struct, frozen=True, kw_only=True, gc=False):
    """The options that our schema has."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    num_predict: int | None = None
    seed: int | None = None
    stop: str | tuple[str, ...] | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


_TEXT: Final = "a string"
_BOOL: Final = "true or false"
_NUMBER: Final = "a number"
_INTEGER: Final = "an integer"
_IMAGE: Final = "an image's bytes in base64"
_KEEP_ALIVE: Final = 'a number of seconds or a duration, such as "5m"'
_CALL: Final = "messages[].tool_calls[]"

ALLOWED: Final = {
    "model": MODEL_NAME,
    "stream": _BOOL,
    "raw": _BOOL,
    "truncate": _BOOL,
    "shift": _BOOL,
    "logprobs": _BOOL,
    "top_logprobs": "an integer from 0 to 20",
    "keep_alive": _KEEP_ALIVE,
    "think": 'true, false, "low", "medium", "high" or "max"',
    "format": '"json" or a JSON schema, which is an object',
    "options": "an object",
    "prompt": _TEXT,
    "suffix": _TEXT,
    "system": _TEXT,
    "template": _TEXT,
    "images": f"a list, each entry {_IMAGE}",
    "images[]": _IMAGE,
    "context": "the list of integers that came with an answer",
    "input": "a string or a list of strings",
    "input[]": _TEXT,
    "dimensions": "an integer of at least 0",
    "messages": "a list of objects",
    "messages[]": "an object",
    "messages[].role": '"system", "user", "assistant" or "tool"',
    "messages[].content": _TEXT,
    "messages[].thinking": _TEXT,
    "messages[].images": f"a list, each entry {_IMAGE}",
    "messages[].images[]": _IMAGE,
    "messages[].tool_name": _TEXT,
    "messages[].tool_call_id": _TEXT,
    "messages[].name": _TEXT,
    "messages[].tool_calls": "a list of objects",
    _CALL: "an object",
    f"{_CALL}.id": _TEXT,
    f"{_CALL}.function": "an object",
    f"{_CALL}.function.name": "a string of at least one character",
    f"{_CALL}.function.arguments": "an object",
    "tools": "a list of objects",
    "tools[]": "an object",
    "tools[].function": "an object",
    "tools[].function.name": "a string of at least one character",
    "tools[].function.description": _TEXT,
    "options.temperature": _NUMBER,
    "options.top_k": _INTEGER,
    "options.top_p": _NUMBER,
    "options.min_p": _NUMBER,
    "options.typical_p": _NUMBER,
    "options.num_predict": _INTEGER,
    "options.seed": _INTEGER,
    "options.stop": "a string or a list of strings",
    "options.repeat_penalty": _NUMBER,
    "options.presence_penalty": _NUMBER,
    "options.frequency_penalty": _NUMBER,
}
"""What each field must be, by its path without indices."""
