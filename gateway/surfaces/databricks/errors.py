"""Errors in Databricks' format: `{"error_code", "message"}`.

The codes are those for which its SDK has an exception class, so that a client neither reports
its own mistake as the service's nor retries it.
https://github.com/databricks/databricks-sdk-py/blob/main/databricks/sdk/errors/platform.py
"""

from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.openai.bodies import Error, openai_error
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import GatewayError, ModelNotFound

CODES: Final[dict[int, str]] = {
    400: "BAD_REQUEST",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "RESOURCE_CONFLICT",
    424: "INVALID_STATE",
    429: "REQUEST_LIMIT_EXCEEDED",
    499: "CANCELLED",
    500: "INTERNAL_ERROR",
    501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

OTHER_4XX: Final = "INVALID_PARAMETER_VALUE"
"""405, 413, 415, 422: statuses for which clients have no class, and which they would retry."""

WORDS: Final[dict[str, str]] = {
    "append_suffix": "suffix is text appended to each completion",
    "template": "a prompt is wrapped in the model's chat template unless use_raw_prompt is true",
}
"""Explanations of fields in errors, for fields whose name differs from the common one."""


class DatabricksError(Struct, frozen=True, kw_only=True):
    """An error, as Databricks' clients read it."""

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
    """Return the data of a stream's last frame. Its status was already sent as a 200.

    `error` is added next to the envelope because OpenAI's client looks for it.
    """
    message = _message(exc)
    return encode(_Frame(error_code=error_code(exc), message=message, error=openai_error(exc)))


def _message(exc: GatewayError) -> str:
    word = WORDS.get(exc.param or "")
    return exc.message if word is None else f"{exc.message} ({word})"
