"""Errors in the OpenAI dialect."""

from collections.abc import Callable

import msgspec
import pytest

from strowger_gateway.gateway.surfaces.openai.parse import (
    parse_chat,
    parse_completion,
    parse_embeddings,
)
from strowger_gateway.gateway.surfaces.openai.surface import CHAT, error_body
from strowger_gateway.schemas.errors import (
    BodyTooLarge,
    Forbidden,
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    RequestTimeout,
    Throttled,
    Unauthenticated,
    Unavailable,
    UpstreamBusy,
    UpstreamRejected,
    UpstreamTimeout,
)
from tests.gateway.surfaces.bodies import chat_body

Parse = Callable[[bytes], object]

PARSERS: tuple[Parse, ...] = (parse_chat, parse_completion, parse_embeddings)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest("x"), "invalid_request_error"),
        (RequestTimeout("x"), "invalid_request_error"),
        (BodyTooLarge("x"), "invalid_request_error"),
        (Unauthenticated("x"), "authentication_error"),
        (Forbidden("x"), "permission_error"),
        (ModelNotFound("x"), "not_found_error"),
        (Throttled("x"), "rate_limit_error"),
        (UpstreamBusy("x", upstream="u"), "rate_limit_error"),
        (GatewayError("x"), "api_error"),
        (Unavailable("x"), "api_error"),
        (UpstreamTimeout("x", upstream="u"), "api_error"),
        (UpstreamRejected("x", status=422, upstream="u"), "invalid_request_error"),
    ],
)
def test_the_type_follows_from_the_status(error: GatewayError, kind: str) -> None:
    assert msgspec.json.decode(error_body(error)) == {
        "error": {"message": error.message, "type": kind, "param": None, "code": error.code}
    }


def test_the_envelope_names_the_field() -> None:
    body = error_body(InvalidRequest("temperature must be …", param="temperature"))

    assert b'"param":"temperature"' in body
    assert b'"code":"invalid_request"' in body


def test_a_backends_message_about_the_request_is_passed_on_unchanged() -> None:
    error = UpstreamRejected(
        "too long",
        status=400,
        upstream="openai",
        type="context_error",
        param="messages",
        code="context_length_exceeded",
    )

    assert msgspec.json.decode(CHAT.error(error)) == {
        "error": {
            "message": "too long",
            "type": "context_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b'"text"', b"true"])
def test_a_body_is_an_object(parse: Parse, body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the body must be a JSON object") as caught:
        parse(body)

    assert caught.value.param is None


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"model":"m",}',
        b'{"model":NaN}',
        b"model: m",
        b'{"model":"m","x":01}',
        b'{"model":"m","temperature":Infinity}',
        b'{"x":"\\ud800"}',
        b'\xef\xbb\xbf{"model":"m"}',
    ],
)
def test_a_body_is_json(parse: Parse, body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the body is not valid JSON"):
        parse(body)


def test_the_error_for_malformed_json_names_its_place() -> None:
    with pytest.raises(InvalidRequest, match=r"\(byte 12\)"):
        parse_chat(b'{"model":"m"!')


def test_nothing_may_follow_the_object() -> None:
    with pytest.raises(InvalidRequest, match="trailing characters"):
        parse_chat(chat_body() + b"x")


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("place", [b'"model":"%s"', b'"unknown":"%s"', b'"%s":1'])
def test_a_body_is_utf8(parse: Parse, place: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"the body is not UTF-8: .* at byte"):
        parse(b"{" + place % b"\xff" + b"}")


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("field", [b"metadata", b"unknown"])
def test_a_body_is_not_nested_without_end(parse: Parse, field: bytes) -> None:
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        parse(b'{"%s":' % field + b"[" * 100_000)


@pytest.mark.parametrize("number", ["1e400", "1" * 400, "-1e400"])
def test_a_number_too_large_to_exist_is_refused(number: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_chat(b'{"temperature":%s}' % number.encode())

    assert caught.value.param == "temperature"
