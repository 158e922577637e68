"""Encodes texts for Google's embedding models and decodes the vectors, by one of three methods.

AI Studio: batchEmbedContents. Vertex: batchEmbedContents, or embedContent for a single text, for
Gemini models; predict for older ones.
https://ai.google.dev/api/embeddings
https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api
"""

from typing import Literal

import msgspec
from msgspec import Struct, UnsetType

from strowger_gateway.adapters.gemini.parts import Body
from strowger_gateway.adapters.gemini.usage import usage_from
from strowger_gateway.adapters.gemini.wire import Prediction, read_vectors
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import EmbeddingsRequest

Route = Literal["batchEmbedContents", "embedContent", "predict"]


class EmbeddingMethod(Struct, frozen=True, kw_only=True):
    """nested: sizes and Google's own fields are in an `embedContentConfig`, as on Vertex."""

    route: Route
    nested: bool = False


OWN = frozenset({"taskType", "title"})
"""Google's own fields, sent with every text."""

_SNAKE = {"taskType": "task_type", "title": "title"}

_encode = msgspec.json.Encoder().encode


def embedding_method(model: str, texts: int, *, vertex: bool) -> EmbeddingMethod:
    """Return the method that Google's own client uses for this model."""
    if not vertex:
        return EmbeddingMethod(route="batchEmbedContents")
    name = model.rpartition("/")[2]
    if "gemini" not in name and "maas" not in name:
        return EmbeddingMethod(route="predict")
    return EmbeddingMethod(
        route="embedContent" if texts == 1 else "batchEmbedContents", nested=True
    )


def embeddings_body(request: EmbeddingsRequest, path: str, method: EmbeddingMethod) -> bytes:
    """path: the model's, as `models/NAME`. Raises InvalidRequest for tokens."""
    if not all(isinstance(one, str) for one in request.inputs):
        raise InvalidRequest("input: this backend accepts only texts", param="input")
    size: Body = {}
    if not isinstance(request.dimensions, UnsetType):
        size["outputDimensionality"] = request.dimensions
    config: Body = {**request.extra, **size}
    match method:
        case EmbeddingMethod(route="predict"):
            named = {_SNAKE.get(name, name): raw for name, raw in request.extra.items()}
            body: Body = {"instances": [{"content": one, **named} for one in request.inputs]}
            return _encode({**body, "parameters": size} if size else body)
        case EmbeddingMethod(nested=False):
            texts = [{"model": path, **_content(one), **config} for one in request.inputs]
            return _encode({"requests": texts})
        case _:
            inside: Body = {"embedContentConfig": config} if config else {}
            texts = [{**_content(one), **inside} for one in request.inputs]
            single = method.route == "embedContent"
            return _encode(texts[0] if single else {"requests": texts})


def read_embeddings(body: bytes) -> Embeddings:
    """Raises msgspec's errors for an unreadable answer."""
    answer = read_vectors(body)
    if answer.predictions is not None:
        return Embeddings(
            vectors=tuple(one.embeddings.values for one in answer.predictions),
            usage=_counted(answer.predictions),
        )
    single = () if answer.embedding is None else (answer.embedding,)
    return Embeddings(
        vectors=tuple(one.values for one in answer.embeddings or single),
        usage=usage_from(answer.usage_metadata) or Usage(),
    )


def _counted(predictions: tuple[Prediction, ...]) -> Usage:
    """Return the sum if every text was counted, else unknown usage."""
    counts = [
        one.embeddings.statistics.token_count if one.embeddings.statistics else None
        for one in predictions
    ]
    known = [int(one) for one in counts if one is not None]
    if len(known) != len(counts):
        return Usage()
    return Usage(prompt_tokens=sum(known), total_tokens=sum(known))


def _content(text: object) -> Body:
    return {"content": {"parts": [{"text": text}]}}
