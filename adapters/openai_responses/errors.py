"""Translates failures that a Responses API reports inside a 200, in its answer or its stream.

https://platform.openai.com/docs/api-reference/responses/object#responses/object-error
"""

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_from
from strowger_gateway.adapters.errors import error_inside as openai_error_inside
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.errors import GatewayError

CALLERS = frozenset(
    {
        "bio_policy",
        "data_residency_mismatch",
        "empty_image_file",
        "failed_to_download_image",
        "image_content_policy_violation",
        "image_file_not_found",
        "image_file_too_large",
        "image_parse_error",
        "image_too_large",
        "image_too_small",
        "invalid_base64_image",
        "invalid_image",
        "invalid_image_format",
        "invalid_image_mode",
        "invalid_image_url",
        "invalid_prompt",
        "misalignment_policy_violation",
        "unsupported_image_media_type",
    }
)
"""Codes of failures that the request caused; all others are the server's."""


class _Failure(Struct, frozen=True, kw_only=True):
    error: Raw = NULL
    response: Raw = NULL


class _Code(Struct, frozen=True, kw_only=True):
    code: str | None = None


_failure = msgspec.json.Decoder(_Failure).decode
_code = msgspec.json.Decoder(_Code).decode


def error_inside(endpoint: Endpoint, body: bytes) -> GatewayError:
    """Return the error for an answer or an event that reports a failure.

    The error is in `response.error`, in `error`, or the event itself.
    """
    inner = _inner(body)
    try:
        code = _code(inner).code
    except UNREADABLE:
        code = None
    if code in CALLERS:
        return error_from(endpoint, 400, {}, inner)
    return openai_error_inside(endpoint, inner)


def _inner(body: bytes) -> bytes:
    try:
        found = _failure(body)
        if found.response != NULL:
            found = _failure(found.response)
    except UNREADABLE:
        return body
    return body if found.error == NULL else bytes(found.error)
