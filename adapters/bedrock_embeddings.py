"""Embedding models behind Bedrock's InvokeModel, whose bodies are their vendors' own.

A name that holds `cohere.embed` means Cohere's, any other Titan's, which take one text a request.
https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from adapters.base import Endpoint
from adapters.cohere_encode import name_and_purpose
from adapters.openai_wire import NULL, UNREADABLE
from schemas.answers import Embeddings
from schemas.errors import InvalidRequest, UpstreamBroken
from schemas.events import Usage
from schemas.requests import EmbeddingsRequest

OWN: Final = frozenset({"input_type", "truncate", "normalize"})
"""Cohere's own fields, and Titan's, which travel as they are."""

COHERE: Final = "cohere.embed"
COHERE_INPUTS: Final = 96

Vectors = tuple[list[float], ...]


class _ByType(Struct, frozen=True, kw_only=True):
    float: Vectors = ()


class _Answer(Struct, frozen=True, kw_only=True):
    """Titan's fields, then Cohere's: a list, or lists by type where types were asked for."""

    embedding: list[float] | None = None
    inputTextTokenCount: int | None = None  # noqa: N815  the wire's name
    embeddings: Raw = NULL
    id: str = ""


_read = msgspec.json.Decoder(_Answer).decode
_vectors = msgspec.json.Decoder(Vectors).decode
_by_type = msgspec.json.Decoder(_ByType).decode
_encode = msgspec.json.Encoder().encode


def inputs_of(model: str) -> int:
    """The most texts of one request."""
    return COHERE_INPUTS if COHERE in model else 1


def embeddings_body(request: EmbeddingsRequest, model: str) -> bytes:
    """model: for Cohere's `NAME`, or `NAME/INPUT_TYPE`, as the adapter for Cohere itself has it.

    Raises InvalidRequest for tokens, and for more texts than the model takes.
    """
    texts = [one for one in request.inputs if isinstance(one, str)]
    if len(texts) != len(request.inputs):
        raise InvalidRequest("input: this backend takes texts", param="input")
    body: dict[str, object] = {}
    if COHERE in model:
        body["texts"] = texts
        body["input_type"] = name_and_purpose(model)[1]
        size = "output_dimension"
    else:
        if len(texts) != 1:
            raise InvalidRequest("input: this model takes one text a request", param="input")
        body["inputText"] = texts[0]
        size = "dimensions"
    if not isinstance(request.dimensions, UnsetType):
        body[size] = request.dimensions
    return _encode({**body, **request.extra})


def embeddings_from(endpoint: Endpoint, request: EmbeddingsRequest, body: bytes) -> Embeddings:
    """Raises UpstreamBroken for an answer that cannot be read, or has too few vectors."""
    try:
        answer = _read(body)
        vectors = _vectors_of(answer)
    except UNREADABLE as exc:
        head = body[:80].decode(errors="replace")
        raise UpstreamBroken(
            f"an answer that cannot be read: {head}", upstream=endpoint.name
        ) from exc
    if len(vectors) != len(request.inputs):
        raise UpstreamBroken(
            f"{len(vectors)} vectors for {len(request.inputs)} inputs", upstream=endpoint.name
        )
    count = answer.inputTextTokenCount
    return Embeddings(
        vectors=vectors, id=answer.id, usage=Usage(prompt_tokens=count, total_tokens=count)
    )


def _vectors_of(answer: _Answer) -> Vectors:
    if answer.embedding is not None:
        return (answer.embedding,)
    if bytes(answer.embeddings).lstrip().startswith(b"{"):
        return _by_type(answer.embeddings).float
    return () if answer.embeddings == NULL else _vectors(answer.embeddings)
