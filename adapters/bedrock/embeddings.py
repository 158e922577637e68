"""Embeddings by Bedrock's InvokeModel, in the formats of the models' vendors.

A name with `cohere.embed` selects Cohere's format, one with `amazon.nova` Nova's, any other
Titan's; the last two accept one text per request.
https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
https://docs.aws.amazon.com/nova/latest/userguide/embeddings-schema.html
https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.cohere.encode import name_and_purpose
from strowger_gateway.adapters.errors import unreadable
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamBroken
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import EmbeddingsRequest

EMBEDDING_FIELDS: Final = frozenset({"embeddingPurpose", "input_type", "normalize", "truncate"})
"""Fields of some models, sent unchanged; for Nova, Cohere's are translated."""

COHERE: Final = "cohere.embed"
COHERE_INPUTS: Final = 96
NOVA: Final = "amazon.nova"

PURPOSES: Final[Mapping[str, str]] = {
    "search_document": "GENERIC_INDEX",
    "search_query": "GENERIC_RETRIEVAL",
    "classification": "CLASSIFICATION",
    "clustering": "CLUSTERING",
}
"""Cohere's `input_type` -> Nova's `embeddingPurpose`, which Nova requires too."""

Vectors = tuple[list[float], ...]


class _OfNova(Struct, frozen=True, kw_only=True):
    embedding: list[float]


class _ByType(Struct, frozen=True, kw_only=True):
    float: Vectors = ()


class _Answer(Struct, frozen=True, kw_only=True):
    """Titan's fields, then the others'.

    embeddings: Cohere's list, or lists by type if types were requested; Nova's list of objects.
    """

    embedding: list[float] | None = None
    inputTextTokenCount: int | None = None  # noqa: N815  the wire's name
    embeddings: Raw = NULL
    id: str = ""


_read = msgspec.json.Decoder(_Answer).decode
_vectors = msgspec.json.Decoder(Vectors).decode
_of_nova = msgspec.json.Decoder(tuple[_OfNova, ...]).decode
_text = msgspec.json.Decoder(str).decode
_by_type = msgspec.json.Decoder(_ByType).decode
_encode = msgspec.json.Encoder().encode


def inputs_of(model: str) -> int:
    """Return the most texts per request."""
    return COHERE_INPUTS if COHERE in model else 1


def embeddings_body(request: EmbeddingsRequest, model: str) -> bytes:
    """model: Cohere's may be `NAME` or `NAME/INPUT_TYPE`, as in the adapter for Cohere itself.

    Raises InvalidRequest for tokens, and for more texts than the model accepts.
    """
    texts = [one for one in request.inputs if isinstance(one, str)]
    if len(texts) != len(request.inputs):
        raise InvalidRequest("input: this backend accepts only texts", param="input")
    if COHERE not in model and len(texts) != 1:
        raise InvalidRequest("input: this model accepts one text per request", param="input")
    if NOVA in model:
        return _encode(_nova(request, texts[0], name_and_purpose(model)[1]))
    body: dict[str, object] = {}
    if COHERE in model:
        body["texts"] = texts
        body["input_type"] = name_and_purpose(model)[1]
        size = "output_dimension"
    else:
        body["inputText"] = texts[0]
        size = "dimensions"
    if not isinstance(request.dimensions, UnsetType):
        body[size] = request.dimensions
    return _encode({**body, **request.extra})


def embeddings_from(endpoint: Endpoint, request: EmbeddingsRequest, body: bytes) -> Embeddings:
    """Raises UpstreamBroken for an answer that is unreadable, or has too few vectors."""
    try:
        answer = _read(body)
        vectors = _vectors_of(answer)
    except UNREADABLE as exc:
        raise unreadable(endpoint, body) from exc
    if len(vectors) != len(request.inputs):
        raise UpstreamBroken(
            f"{len(vectors)} vectors for {len(request.inputs)} inputs", upstream=endpoint.name
        )
    count = answer.inputTextTokenCount
    return Embeddings(
        vectors=vectors, id=answer.id, usage=Usage(prompt_tokens=count, total_tokens=count)
    )


def _nova(request: EmbeddingsRequest, text: str, purpose: str) -> dict[str, object]:
    """Encode for Nova: text that is too long is an error, not cut, as with all other backends.

    Raises InvalidRequest naming a field that Nova does not have.
    """
    extra = dict(request.extra)
    target = extra.pop("embeddingPurpose", PURPOSES.get(purpose, PURPOSES["search_document"]))
    kind = extra.pop("input_type", None)
    if kind is not None:
        target = PURPOSES.get(_string(kind, "input_type"))
        if target is None:
            raise InvalidRequest(
                f"input_type: this model supports {', '.join(PURPOSES)}", param="input_type"
            )
    params: dict[str, object] = {
        "embeddingPurpose": target,
        "text": {"truncationMode": extra.pop("truncate", "NONE"), "value": text},
    }
    if not isinstance(request.dimensions, UnsetType):
        params["embeddingDimension"] = request.dimensions
    for name in extra:
        raise InvalidRequest(f"{name}: this model has no such field; leave it out", param=name)
    return {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": params}


def _string(raw: Raw, field: str) -> str:
    try:
        return _text(raw)
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be a string", param=field) from exc


def _vectors_of(answer: _Answer) -> Vectors:
    if answer.embedding is not None:
        return (answer.embedding,)
    if bytes(answer.embeddings).lstrip().startswith(b"{"):
        return _by_type(answer.embeddings).float
    if bytes(answer.embeddings).lstrip(b"[ \n\r\t").startswith(b"{"):
        return tuple(one.embedding for one in _of_nova(answer.embeddings))
    return () if answer.embeddings == NULL else _vectors(answer.embeddings)
