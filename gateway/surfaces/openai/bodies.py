"""Bodies of the OpenAI dialect that are not generated text: errors and vectors."""

import sys
from array import array
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.openai.usage import embeddings_usage_json
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.requests import EmbeddingsRequest

encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

TYPES: Final[dict[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    424: "api_error",
    429: "rate_limit_error",
}
"""The envelope's `type` by status; other 4xx are the client's fault, 424 and all 5xx ours."""


class Error(Struct, frozen=True, kw_only=True):
    """param: the invalid field. code: a stable identifier, the vendor's own if it has one."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct, frozen=True, kw_only=True):
    """An error, in OpenAI's envelope."""

    error: Error


class EmbeddingObject(Struct, frozen=True, kw_only=True):
    """embedding: numbers, or base64 of little-endian float32, depending on `encoding_format`."""

    object: str = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingList(Struct, frozen=True, kw_only=True):
    """One vector per input, in order."""

    object: str = "list"
    data: list[EmbeddingObject]
    model: str
    usage: Raw | UnsetType = UNSET
    id: str


def error_body(exc: GatewayError) -> bytes:
    """Return `{"error": {"message", "type", "param", "code"}}`, always with all four."""
    return encode(OpenAIError(error=openai_error(exc)))


class VoyageError(Struct, frozen=True, kw_only=True):
    """Errors for Voyage's Python client: it reads `detail`, and fails on an object named `error`.

    https://github.com/voyage-ai/voyageai-python/blob/main/voyageai/error.py
    """

    detail: str
    type: str
    param: str | None
    code: str | None


def voyage_error(exc: GatewayError) -> bytes:
    error = openai_error(exc)
    return encode(
        VoyageError(detail=error.message, type=error.type, param=error.param, code=error.code)
    )


def openai_error(exc: GatewayError) -> Error:
    kind = exc.type if isinstance(exc, UpstreamRejected) else None
    if isinstance(exc, UpstreamRefused):
        kind = TYPES[UpstreamRefused.status]
    return Error(
        message=exc.message,
        type=kind or TYPES.get(exc.status) or _type(exc.status),
        param=exc.param,
        code=exc.code,
    )


class OpenAIEmbeddingsRenderer:
    """Render vectors as numbers or base64, as the request asks, whatever the backend sent."""

    def __init__(self, request: EmbeddingsRequest, *, id: str) -> None:
        self._request = request
        self._id = id

    def headers(self, backend: str) -> Headers:
        return []

    def embeddings(self, embeddings: Embeddings) -> bytes:
        """Raise UpstreamBroken if a backend's base64 is not float32 values."""
        form = _as_base64 if self._request.base64 else as_numbers
        usage = embeddings_usage_json(embeddings.usage)
        around = EmbeddingList(
            data=[],
            model=embeddings.model or self._request.model,
            usage=UNSET if usage is None else Raw(usage),
            id=self._id,
        )
        before, data, after = encode(around).partition(b'"data":[')
        # One by one, so that a large answer does not hold the interpreter.
        vectors = [
            encode(EmbeddingObject(index=place, embedding=form(vector)))
            for place, vector in enumerate(embeddings.vectors)
        ]
        return b"".join((before, data, b",".join(vectors), after))


def _type(status: int) -> str:
    return "invalid_request_error" if status < 500 else "api_error"


def _as_base64(vector: list[float] | str) -> str:
    if isinstance(vector, str):
        return vector
    values = array("f", vector)
    if sys.byteorder == "big":
        values.byteswap()
    return b64encode(values.tobytes()).decode("ascii")


def as_numbers(vector: list[float] | str) -> list[float]:
    """Raises UpstreamBroken for text that is not base64 of float32 values."""
    if not isinstance(vector, str):
        return vector
    values = array("f")
    try:
        values.frombytes(b64decode(vector, validate=True))
    except (NotBase64, ValueError) as exc:
        raise UpstreamBroken(
            "an embedding is not base64 of float32 values", upstream="the backend"
        ) from exc
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()
