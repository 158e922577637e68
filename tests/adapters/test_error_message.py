"""The vendor's error message is found in every known format."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.error_message import LONGEST, Problem, problem, redacted

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "code", "status", "type", "loc", "x"]),
            inner,
            max_size=4,
        )
    ),
)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            b'{"error":{"message":"m","type":"t","param":"p","code":"c"}}',
            Problem(message="m", type="t", param="p", code="c"),
        ),
        (
            b'{"object":"error","message":"m","type":"NotFoundError","param":null,"code":404}',
            Problem(message="m", type="NotFoundError", code="404", status=404),
        ),
        (b'{"error":"m","error_type":"t"}', Problem(message="m", type="t")),
        (b'{"message":"m","request_id":"r"}', Problem(message="m")),
        (b'{"detail":"m"}', Problem(message="m")),
        (
            b'{"detail":[{"type":"missing","loc":["body","n"],"msg":"Field required"}]}',
            Problem(message="n: Field required", param="n"),
        ),
        (
            b'{"error_code":"BAD_REQUEST","message":"{\\"message\\":\\"too long\\"}"}',
            Problem(message="too long", code="BAD_REQUEST"),
        ),
        (b'"{\\"error\\": {\\"message\\": \\"m\\"}}"', Problem(message="m")),
        (
            b'[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]',
            Problem(message="m", code="400", status=400),
        ),
        (
            b'{"error":{"message":"m","code":"tool_use_failed","status_code":400}}',
            Problem(message="m", code="tool_use_failed", status=400),
        ),
        (b"slow down", Problem(message="slow down")),
        (b"<html><head><title>502 Bad Gateway</title></head>", Problem(message="502 Bad Gateway")),
        (b"<h1>Sorry</h1>\n<p>gone <b>away</b></p>", Problem(message="Sorry gone away")),
        (b"", Problem()),
        (b"null", Problem()),
        (b"\xff", Problem(message="\N{REPLACEMENT CHARACTER}")),
    ],
)
def test_every_known_shape_is_read(body: bytes, found: Problem) -> None:
    assert problem(body) == found


@given(JSON)
def test_no_json_is_too_odd(value: object) -> None:
    found = problem(msgspec.json.encode(value))

    assert len(found.message) <= LONGEST + 1


@given(st.binary())
def test_no_bytes_are_too_odd(body: bytes) -> None:
    assert isinstance(problem(body).message, str)


def test_a_long_message_is_cut() -> None:
    assert len(problem(b"x" * 10_000).message) == LONGEST + 1


def test_nesting_without_end_is_read_to_a_certain_depth() -> None:
    assert problem(b'{"error":' * 50 + b'"deep"' + b"}" * 50).message == ""
    assert problem(b"[" * 200_000).message.startswith("[")


def test_secrets_are_removed_and_short_words_are_not() -> None:
    assert redacted("key sk-12345678 is bad", ("sk-12345678", "", "is")) == "key *** is bad"
