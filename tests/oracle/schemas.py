"""The schemas that vendors publish, by API: the types of their clients and AWS's service models.

A client is imported when the first request to its vendor comes: most take longer to import than a
file of tests to run.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, Protocol, Required, TypedDict, cast, get_type_hints

import msgspec

from tests.oracle.sent import Api, Sent

STRICT_OPENAI: Final = frozenset({"openai", "azure"})
"""Vendors of OpenAI's dialect that refuse members which OpenAI's reference does not have."""

OWN_VALUES: Final = frozenset({"reasoning_effort", "service_tier", "verbosity"})
"""Members for which other vendors of OpenAI's dialect have values of their own."""

MODEL_IN_BODY: Final = frozenset(
    {
        "anthropic-vertex",
        "openai-chat",
        "openai-completions",
        "openai-embeddings",
        "openai-responses",
    }
)

CONVERSE: Final[Mapping[str, str]] = {
    "converse": "ConverseRequest",
    "converse-stream": "ConverseStreamRequest",
    "count-tokens": "CountTokensRequest",
}


class Schema(Protocol):
    """Yields paths in a body, each with what is wrong there."""

    def faults(self, raw: bytes) -> Iterator[tuple[str, str]]: ...


NOT_REQUIRED: Final[Mapping[str, frozenset[str]]] = {
    # The API takes it for true: https://platform.openai.com/docs/guides/function-calling#strict-mode
    "FunctionToolParam": frozenset({"strict"}),
    # The API takes it for auto: https://platform.openai.com/docs/guides/images-vision
    "ResponseInputImageParam": frozenset({"detail"}),
    # Codex sends none of them: https://github.com/openai/codex/blob/main/codex-rs/protocol/src/models.rs
    # Nor does the AI SDK, which sends no type either:
    # https://github.com/vercel/ai/blob/main/packages/openai/src/responses/convert-to-openai-responses-input.ts
    "ResponseOutputMessageParam": frozenset({"id", "status", "type"}),
    "ResponseOutputTextParam": frozenset({"annotations"}),
    "ResponseReasoningItemParam": frozenset({"id"}),
}
"""Members that OpenAI's reference requires and its API does not, by the client's types."""

OF_THEIR_OWN: Final = frozenset({"databricks", "mindie", "tgi"})
"""Vendors with parts and formats that OpenAI's dialect has not; they publish no types of them."""


def schema_faults(sent: Sent) -> Iterator[tuple[str, str]]:
    """Yield path and fault of everything in a request that its vendor's schema does not allow.

    A vendor whose API has the model in the path may have the schema of one that has it in the body.
    """
    schema = _schema_of(sent)
    if schema is None:
        return
    body = dict(sent.body)
    if sent.api in MODEL_IN_BODY and "model" not in body and sent.model:
        body["model"] = sent.model
    if sent.api in OPENAI and sent.vendor not in STRICT_OPENAI | {"mistral"}:
        body = {name: value for name, value in body.items() if name not in OWN_VALUES}
    yield from schema.faults(sent.raw if body == sent.body else msgspec.json.encode(body))


def _schema_of(sent: Sent) -> Schema | None:
    if sent.api == "openai-chat" and sent.vendor == "mistral":
        return _mistral(
            "ChatCompletionStreamRequest" if _streamed(sent) else "ChatCompletionRequest"
        )
    if sent.api == "openai-embeddings" and sent.vendor == "mistral":
        return _mistral("EmbeddingRequest")
    if sent.api in OPENAI and (not sent.vendor or sent.vendor in OF_THEIR_OWN):
        return None
    if sent.api in OPENAI:
        return OPENAI[sent.api](sent.vendor in STRICT_OPENAI, _streamed(sent))
    if sent.api in ("bedrock-converse", "bedrock-count"):
        return _converse(sent.path.rpartition("/")[2])
    if sent.api in ("anthropic-messages", "anthropic-vertex"):
        vertex = sent.api == "anthropic-vertex"
        return _anthropic(beta="anthropic-beta" in sent.headers, vertex=vertex)
    if sent.api == "anthropic-count":
        return _anthropic_count(beta="anthropic-beta" in sent.headers)
    if sent.api == "gemini-embed":
        return _gemini_embed(sent.path.rpartition(":")[2])
    made = OTHERS.get(sent.api)
    return None if made is None else made()


def _streamed(sent: Sent) -> bool:
    return sent.body.get("stream") is True


@cache
def _openai_chat(closed: bool, streamed: bool) -> Schema:
    from openai.types.chat import completion_create_params as params

    from tests.oracle.strict_types import StrictType

    whole, stream = (
        params.CompletionCreateParamsNonStreaming,
        params.CompletionCreateParamsStreaming,
    )
    return StrictType(stream if streamed else whole, closed=closed)


@cache
def _openai_completions(closed: bool, streamed: bool) -> Schema:
    from openai.types import completion_create_params as params

    from tests.oracle.strict_types import StrictType

    whole, stream = (
        params.CompletionCreateParamsNonStreaming,
        params.CompletionCreateParamsStreaming,
    )
    return StrictType(stream if streamed else whole, closed=closed)


@cache
def _openai_embeddings(closed: bool, _streamed: bool) -> Schema:
    from openai.types.embedding_create_params import EmbeddingCreateParams

    from tests.oracle.strict_types import StrictType

    return StrictType(EmbeddingCreateParams, closed=closed)


@cache
def _openai_responses(closed: bool, streamed: bool) -> Schema:
    from openai.types.responses import response_create_params as params

    from tests.oracle.strict_types import StrictType

    whole, stream = params.ResponseCreateParamsNonStreaming, params.ResponseCreateParamsStreaming
    of = stream if streamed else whole
    return StrictType(of, closed=closed, optional=NOT_REQUIRED)


OPENAI: Final[Mapping[Api, Callable[[bool, bool], Schema]]] = {
    "openai-chat": _openai_chat,
    "openai-completions": _openai_completions,
    "openai-embeddings": _openai_embeddings,
    "openai-responses": _openai_responses,
}


@cache
def _mistral(name: str) -> Schema:
    from mistralai.client import models

    from tests.oracle.strict_types import StrictType

    return StrictType(getattr(models, name))


class _MoreOfMessages(TypedDict, total=False):
    """What this version of Anthropic's client sends only as `extra_body`."""

    stream: bool
    temperature: float
    top_p: float
    top_k: int


class _OnVertex(TypedDict, total=False):
    anthropic_version: str


class _Versioned(_MoreOfMessages):
    """https://docs.claude.com/en/api/claude-on-vertex-ai"""

    anthropic_version: Required[str]


@cache
def _anthropic(*, beta: bool, vertex: bool) -> Schema:
    """beta: with the members that a header of that name makes known."""
    from anthropic.types import message_create_params as params
    from anthropic.types.beta import message_create_params as beta_params

    from tests.oracle.strict_types import StrictType

    base = beta_params.MessageCreateParamsBase if beta else params.MessageCreateParamsBase
    return StrictType(_joined(base, _Versioned if vertex else _MoreOfMessages))


def _joined(*types: type) -> object:
    """Return a model with the members of several TypedDicts."""
    from pydantic import create_model

    fields: dict[str, Any] = {
        name: (hint, ... if name in _required(one) else None)
        for one in types
        for name, hint in get_type_hints(one).items()
    }
    return create_model("Joined", **fields)


def _required(of: type) -> frozenset[str]:
    return cast("frozenset[str]", vars(of)["__required_keys__"])


@cache
def _anthropic_count(*, beta: bool) -> Schema:
    """beta: as in `_anthropic`."""
    from anthropic.types import MessageCountTokensParams
    from anthropic.types.beta import message_count_tokens_params as beta_params

    from tests.oracle.strict_types import StrictType

    base = beta_params.MessageCountTokensParams if beta else MessageCountTokensParams
    return StrictType(_joined(base, _OnVertex))


@cache
def _converse(verb: str) -> Schema:
    from tests.oracle.service_model import ShapeSchema

    return ShapeSchema("bedrock-runtime", CONVERSE[verb])


@cache
def _gemini() -> Schema:
    from tests.oracle.gemini_types import GenerateContentRequest
    from tests.oracle.strict_types import StrictType

    return StrictType(GenerateContentRequest)


@cache
def _gemini_embed(verb: str) -> Schema:
    from tests.oracle.gemini_types import BatchEmbedContentsRequest, EmbedContentRequest
    from tests.oracle.strict_types import StrictType

    many = verb.startswith("batch")
    return StrictType(BatchEmbedContentsRequest if many else EmbedContentRequest)


@cache
def _cohere(verb: str) -> Schema:
    from cohere.v2.client import V2Client
    from pydantic import create_model

    from tests.oracle.strict_types import StrictType

    method: Callable[..., object] = getattr(V2Client, verb)
    hints = get_type_hints(method)
    fields: dict[str, Any] = {
        name: (hints[name], ... if one.default is one.empty else None)
        for name, one in inspect.signature(method).parameters.items()
        if one.kind is one.KEYWORD_ONLY and name != "request_options"
    }
    return StrictType(create_model(verb, **fields, stream=(bool, False)))


@cache
def _ollama(name: str) -> Schema:
    from tests.oracle import ollama_types
    from tests.oracle.strict_types import StrictType

    return StrictType(getattr(ollama_types, name), closed=False)  # it ignores what it does not know


@cache
def _tgi() -> Schema:
    from huggingface_hub import TextGenerationInput

    from tests.oracle.strict_types import StrictType

    return StrictType(TextGenerationInput)


OTHERS: Final[Mapping[Api, Callable[[], Schema]]] = {
    "cohere-chat": partial(_cohere, "chat"),
    "cohere-embed": partial(_cohere, "embed"),
    "gemini-generate": _gemini,
    "mistral-fim": partial(_mistral, "FIMCompletionRequest"),
    "ollama-chat": partial(_ollama, "ChatRequest"),
    "ollama-generate": partial(_ollama, "GenerateRequest"),
    "ollama-embed": partial(_ollama, "EmbedRequest"),
    "tgi-generate": _tgi,
}
