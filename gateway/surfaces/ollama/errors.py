"""Errors as Ollama's clients read them: a status, and one sentence.

https://github.com/ollama/ollama/blob/main/docs/api.md: its clients show the text.
"""

from msgspec import Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import GatewayError


class OllamaError(Struct, frozen=True, kw_only=True):
    error: str


def error_body(exc: GatewayError) -> bytes:
    return encode(OllamaError(error=exc.message))
