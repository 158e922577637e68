"""Errors of a surface whose path several vendors share: each finds the message where it looks.

Cohere's clients read `message`, Voyage's and Jina's `detail`, all of OpenAI's dialect `error`.
"""

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.surfaces.openai.bodies import Error, openai_error
from strowger_gateway.schemas.errors import GatewayError

_encode = msgspec.json.Encoder().encode


class RerankError(Struct, frozen=True, kw_only=True):
    """message, detail: the same sentence."""

    message: str
    detail: str
    error: Error


class VoyageError(Struct, frozen=True, kw_only=True):
    """Errors for Voyage's Python client, which fails on any object named `error`.

    https://github.com/voyage-ai/voyageai-python/blob/main/voyageai/error.py
    """

    detail: str
    type: str
    param: str | None
    code: str | None


def voyage_error(exc: GatewayError) -> bytes:
    error = openai_error(exc)
    return _encode(
        VoyageError(detail=error.message, type=error.type, param=error.param, code=error.code)
    )


def error_body(exc: GatewayError) -> bytes:
    return _encode(RerankError(message=exc.message, detail=exc.message, error=openai_error(exc)))
