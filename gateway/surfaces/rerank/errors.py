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


def error_body(exc: GatewayError) -> bytes:
    return _encode(RerankError(message=exc.message, detail=exc.message, error=openai_error(exc)))
