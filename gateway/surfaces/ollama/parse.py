"""Parse bodies of Ollama's API, or raise an InvalidRequest that names the field.

A prompt with the model's template is a conversation of one turn, as it is inside Ollama, so every
backend with a chat answers it. What has no such form is a completion: a raw prompt, fill in the
middle, a template of the client's, and the context of an Ollama server.

A request without messages, prompt or input only loads the model, or unloads it (`loading.py`).
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.decoding import (
    BodyReader,
    is_object,
    model_name,
    null_to_unset,
)
from strowger_gateway.gateway.surfaces.ollama import carried_context
from strowger_gateway.gateway.surfaces.ollama.conversation import OllamaConversation, read_tools
from strowger_gateway.gateway.surfaces.ollama.images import bare, read_images
from strowger_gateway.gateway.surfaces.ollama.options import OMITTABLE, OPTIONS, read_options
from strowger_gateway.gateway.surfaces.ollama.wire import (
    ALLOWED,
    EmbeddingWire,
    EmbedWire,
    OllamaChatWire,
    OllamaGenerateWire,
)
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, Part, ResponseFormat, TextPart
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Original,
    Request,
)
from strowger_gateway.schemas.sampling import Sampling

DIALECT: Final = "ollama"

UNNAMED_EFFORT: Final = "medium"
"""What `think: true` is for backends that think by effort. An Ollama server gets the client's own
word, because its models take one kind or the other."""

EFFORTS: Final = ("low", "medium", "high", "max")

_FORMAT_NAME: Final = "answer"
_JSON: Final = Raw(b'"json"')
_EMPTY: Final = Raw(b'""')

_chat: Final = BodyReader(OllamaChatWire, ALLOWED)
_generate: Final = BodyReader(OllamaGenerateWire, ALLOWED)
_embed: Final = BodyReader(EmbedWire, ALLOWED)
_embedding: Final = BodyReader(EmbeddingWire, ALLOWED)


class _Common(Struct, frozen=True, kw_only=True):
    """extra: the fields outside our schema. optional: those, and what a backend may leave out."""

    sampling: Sampling
    extra: dict[str, Raw]
    optional: tuple[str, ...]


def parse_chat(body: bytes, *, model: str = "") -> ChatRequest:
    """`POST /api/chat`. model: the name to use if the body names none. Raises InvalidRequest."""
    wire, unknown = _chat.read(body)
    conversation = OllamaConversation(wire.messages or ())
    tools = read_tools(wire.tools)
    return _as_chat(
        wire,
        unknown,
        model_name(wire.model, model),
        ChatRequest(
            "",
            tuple(conversation.messages),
            tools=tools.tools,
            nested=conversation.marked or tools.marked,
        ),
    )


def parse_generate(body: bytes, *, model: str = "") -> Request:
    """`POST /api/generate`. model: as in `parse_chat`. Raises InvalidRequest."""
    wire, unknown = _generate.read(body)
    name = model_name(wire.model, model)
    context = null_to_unset(wire.context)
    earlier: tuple[Message, ...] | None = ()
    if isinstance(context, Raw) and not wire.raw:
        earlier = carried_context.read(context)
    if wire.raw or wire.suffix or wire.template or earlier is None:
        if _loads(wire):
            return _as_chat(wire, unknown, name, ChatRequest("", ()))
        return _as_completion(wire, unknown, name, context if earlier is None else UNSET)
    messages = () if _loads(wire) else (*_system(wire, earlier), *earlier, _question(wire))
    return _as_chat(wire, unknown, name, ChatRequest("", messages))


def parse_embed(body: bytes, *, model: str = "") -> EmbeddingsRequest:
    """`POST /api/embed`. model: as in `parse_chat`. Raises InvalidRequest."""
    wire, unknown = _embed.read(body)
    given = wire.input or ()
    return _as_embeddings(
        wire,
        unknown,
        model_name(wire.model, model),
        (given,) if isinstance(given, str) else given,
        {"truncate": wire.truncate},
        dimensions=wire.dimensions or UNSET,
    )


def parse_embedding(body: bytes, *, model: str = "") -> EmbeddingsRequest:
    """`POST /api/embeddings`. model: as in `parse_chat`. Raises InvalidRequest."""
    wire, unknown = _embedding.read(body)
    inputs = (wire.prompt,) if wire.prompt else ()
    return _as_embeddings(wire, unknown, model_name(wire.model, model), inputs, {})


def _loads(wire: OllamaGenerateWire) -> bool:
    return not wire.prompt and not wire.images and not wire.suffix


def _system(wire: OllamaGenerateWire, earlier: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the system text, unless the conversation begins with the same one."""
    if not wire.system or (earlier and earlier[0].content == wire.system):
        return ()
    return (Message(role="system", content=wire.system),)


def _question(wire: OllamaGenerateWire) -> Message:
    text = wire.prompt or ""
    if not wire.images:
        return Message(role="user", content=text)
    parts: list[Part] = [TextPart(text=text)] if text else []
    return Message(role="user", content=(*parts, *read_images(wire.images, "images")))


def _as_chat(
    wire: OllamaChatWire | OllamaGenerateWire,
    unknown: dict[str, Raw],
    model: str,
    read: ChatRequest,
) -> ChatRequest:
    """Return the conversation with everything else that the client sent."""
    common = _common(wire, unknown, {"truncate": wire.truncate, "shift": wire.shift})
    request = replace(
        read,
        model=model,
        sampling=_with_logprobs(common.sampling, wire),
        response_format=_format(wire.format),
        reasoning_effort=_effort(wire.think),
        stream=wire.stream is not False,
        extra=common.extra,
        optional=common.optional,
    )
    kept = {} if wire.think is None else {"think": Raw(encode(wire.think))}
    if wire.keep_alive is not None:
        kept["keep_alive"] = Raw(encode(wire.keep_alive))
    own = frozenset(request.extra)
    return replace(request, original=Original(dialect=DIALECT, fields=kept, read=request, own=own))


def _as_completion(
    wire: OllamaGenerateWire, unknown: dict[str, Raw], model: str, context: Raw | UnsetType
) -> CompletionRequest:
    """Return a prompt that is not a turn. context: the tokens of an Ollama server."""
    own: dict[str, object] = {"truncate": wire.truncate, "shift": wire.shift, "think": wire.think}
    common = _common(wire, unknown, own)
    extra = dict(common.extra)
    if wire.system:
        extra["system"] = Raw(encode(wire.system))
    if isinstance(context, Raw):
        extra["context"] = context
    if wire.images:
        extra["images"] = Raw(encode([bare(one.url) for one in read_images(wire.images, "images")]))
    if isinstance(form := null_to_unset(wire.format), Raw) and form != _EMPTY:
        extra["format"] = form
    return CompletionRequest(
        model=model,
        prompts=(wire.prompt or "",),
        sampling=_with_logprobs(common.sampling, wire),
        suffix=wire.suffix or UNSET,
        template=not (wire.raw or wire.suffix or wire.template),
        prompt_template=wire.template or UNSET,
        stream=wire.stream is not False,
        extra=extra,
        optional=common.optional,
        dialect=DIALECT,
    )


def _as_embeddings(
    wire: EmbedWire | EmbeddingWire,
    unknown: dict[str, Raw],
    model: str,
    inputs: tuple[str, ...],
    own: Mapping[str, object],
    dimensions: int | UnsetType = UNSET,
) -> EmbeddingsRequest:
    common = _common(wire, unknown, own)
    extra = dict(common.extra)
    options = null_to_unset(wire.options)
    if isinstance(options, Raw):
        extra[OPTIONS] = options  # none of them samples
    return EmbeddingsRequest(
        model=model,
        inputs=inputs,
        batch=len(inputs) != 1,
        dimensions=dimensions,
        extra=extra,
        optional=(*common.optional, OPTIONS),
        dialect=DIALECT,
    )


def _common(
    wire: OllamaChatWire | OllamaGenerateWire | EmbedWire | EmbeddingWire,
    unknown: dict[str, Raw],
    own: Mapping[str, object],
) -> _Common:
    """Return the options, and the fields that only Ollama has. own: some of them, `None` if absent.

    Ollama ignores the fields that it does not know, so these may be left out, too.
    """
    options = read_options(wire.options)
    extra = unknown or {}
    sent = {**own, "keep_alive": wire.keep_alive}
    for name, value in sent.items():
        if value is not None:
            extra[name] = Raw(encode(value))
    optional = (*OMITTABLE, *extra, *options.names) if extra or options.names else OMITTABLE
    if isinstance(options.rest, Raw):
        extra[OPTIONS] = options.rest
        optional = (*optional, OPTIONS)
    return _Common(sampling=options.sampling, extra=extra, optional=optional)


def _with_logprobs(sampling: Sampling, wire: OllamaChatWire | OllamaGenerateWire) -> Sampling:
    if not wire.logprobs:
        return sampling
    most = wire.top_logprobs
    return replace(sampling, logprobs=True, top_logprobs=UNSET if most is None else most)


def _format(raw: Raw | UnsetType) -> ResponseFormat | UnsetType:
    """An empty string asks for nothing, as an absent field does."""
    form = null_to_unset(raw)
    if isinstance(form, UnsetType) or form == _EMPTY:
        return UNSET
    if is_object(form):
        return ResponseFormat(type="json_schema", name=_FORMAT_NAME, schema=form)
    if form == _JSON:
        return ResponseFormat(type="json_object")
    raise InvalidRequest(f"format must be {ALLOWED['format']}", param="format")


def _effort(think: bool | str | None) -> str | UnsetType:
    if think is None:
        return UNSET
    if isinstance(think, bool):
        return UNNAMED_EFFORT if think else "none"
    if think not in EFFORTS:
        raise InvalidRequest(f"think must be {ALLOWED['think']}", param="think")
    return think
