"""Failures as Databricks' clients know them: `{"error_code", "message"}`.

The codes are those that its SDK has an exception class for, so that a client neither takes a
mistake of its own for one of the service's, nor tries it again.
https://github.com/databricks/databricks-sdk-py/blob/main/databricks/sdk/errors/platform.py
"""

from typing import Final

from msgspec import Struct

from gateway.surfaces.openai.bodies import Error, openai_error
from gateway.surfaces.openai.stream_chunks import encode
from schemas.errors import GatewayError, ModelNotFound

CODES: Final[dict[int, str]] = {
    400: "BAD_REQUEST",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "RESOURCE_CONFLICT",
    429: "REQUEST_LIMIT_EXCEEDED",
    499: "CANCELLED",
    500: "INTERNAL_ERROR",
    501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

OTHER_4XX: Final = "INVALID_PARAMETER_VALUE"
"""405, 413, 415, 422: statuses that the clients have no class for, and would repeat as a 500."""

WORDS: Final[dict[str, str]] = {
    "append_suffix": "suffix is text put behind each completion",
    "template": "a prompt is wrapped in the model's chat template unless use_raw_prompt is true",
}
"""What a refusal's field is called here, where the vocabulary's name is another."""


class DatabricksError(Struct, frozen=True, kw_only=True):
    """A failure, as Databricks' clients read it."""

    error_code: str
    message: str


class _Frame(Struct, frozen=True, kw_only=True):
    error_code: str
    message: str
    error: Error


def error_code(exc: GatewayError) -> str:
    if isinstance(exc, ModelNotFound):
        return "RESOURCE_DOES_NOT_EXIST"
    other = OTHER_4XX if exc.status < 500 else "INTERNAL_ERROR"
    return CODES.get(exc.status, other)


def error_body(exc: GatewayError) -> bytes:
    return encode(DatabricksError(error_code=error_code(exc), message=_message(exc)))


def error_frame(exc: GatewayError) -> bytes:
    """The data of a stream's last frame. Its status has gone out as a 200.

    `error` stands beside the envelope, because it is what OpenAI's client looks for.
    """
    message = _message(exc)
    return encode(_Frame(error_code=error_code(exc), message=message, error=openai_error(exc)))


def _message(exc: GatewayError) -> str:
    word = WORDS.get(exc.param or "")
    return exc.message if word is None else f"{exc.message} ({word})"
