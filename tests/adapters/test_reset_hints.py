"""When a limit is reset is read from the text, the fields and the headers of a refusal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_from, error_inside
from strowger_gateway.adapters.reset_hints import UNTIL_FULL_S, wait_of
from strowger_gateway.adapters.retry_after import LONGEST_S
from strowger_gateway.schemas.errors import UpstreamBusy

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
EPOCH = 1_792_567_680
"""The date in Unix seconds."""
DATED = {"date": DATE}


def body(**error: object) -> bytes:
    return json.dumps({"error": {"message": "slow down", **error}}).encode()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached for m. Please try again in 7.66s. Visit https://x", 7.66),
        ("Please try again in 6m0s.", 360.0),
        ("Please try again in 20ms.", 0.02),
        ("Please try again in 1h2m3.5s, or upgrade", 3723.5),
        ("Please retry after 12 seconds.", 12.0),
        ("Please retry in 34.07s.", 34.07),
        ("try again in 2 minutes and 3 seconds", 120.0),
        ("try again in 30 days", LONGEST_S),
        ("try again in a few seconds", None),
        ("try again in 5 parsecs", None),
        ("try again in 0s", None),
        ("try again later", None),
    ],
)
def test_the_text_of_a_refusal_may_name_the_wait(text: str, seconds: float | None) -> None:
    assert wait_of(429, {}, body(message=text)) == seconds
    assert wait_of(429, {}, text.encode()) == seconds


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"resets_in_seconds": 8}, 8.0),
        ({"resets_at": EPOCH + 30}, 30.0),
        ({"retry_after": 2.5, "message": "try again in 9s"}, 2.5),
        ({"retry_after": True}, None),
        ({"retry_after": -1}, None),
        ({"metadata": {"headers": {"X-RateLimit-Reset": str((EPOCH + 9) * 1000)}}}, 9.0),
        ({"metadata": {"headers": {"Retry-After": "4"}}}, 4.0),
        ({"metadata": {"retry_after_seconds": 5}}, 5.0),
    ],
)
def test_fields_of_a_refusal_may_name_the_wait(
    error: dict[str, object], seconds: float | None
) -> None:
    assert wait_of(429, DATED, body(**error)) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset": str((EPOCH + 8) * 1000), "x-ratelimit-remaining": "0"}, 8.0),
        ({"x-ratelimit-reset": str(EPOCH + 8)}, 8.0),
        ({"x-ratelimit-reset": str(EPOCH - 8)}, None),
        ({"x-ratelimit-reset": "8"}, 8.0),
        ({"ratelimit-reset": "8", "ratelimit-remaining": "0"}, 8.0),
        ({"x-ratelimit-reset": "8", "x-ratelimit-remaining": "3"}, None),
        ({"x-ratelimit-reset-requests": "7s", "x-ratelimit-remaining-requests": "0"}, 7.0),
        ({"x-ratelimit-reset-tokens": "1.5s", "x-ratelimit-remaining-tokens": "0"}, 1.5),
        (
            {
                "x-ratelimit-reset-requests": "24h0m0s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "3s",
                "x-ratelimit-remaining-tokens": "5",
            },
            UNTIL_FULL_S,
        ),
        ({"x-ratelimit-reset-requests": "soon", "x-ratelimit-remaining-requests": "0"}, None),
        ({"retry-after": "2", "x-ratelimit-reset": "8"}, 2.0),
        ({"retry-after": "1m30.5s"}, 90.5),
    ],
)
def test_headers_of_limits_may_name_the_wait(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert wait_of(429, {**DATED, **headers}, b"{}") == seconds


def test_without_a_date_a_time_of_day_says_nothing() -> None:
    assert wait_of(429, {"x-ratelimit-reset": str(EPOCH + 8)}, b"{}") is None


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_only_a_busy_vendor_names_a_wait_in_its_text(status: int) -> None:
    assert wait_of(status, {}, body(message="try again in 7s")) is None
    assert wait_of(status, {"retry-after": "7"}, b"") == 7.0


def test_the_wait_reaches_the_error_whole_and_inside_an_answer() -> None:
    endpoint = Endpoint(name="up", base_url="http://up")
    found = body(code=429, message="Please try again in 7s.")

    for error in (error_from(endpoint, 429, {}, found), error_inside(endpoint, found)):
        assert isinstance(error, UpstreamBusy)
        assert error.retry_after == 7.0


@given(st.text(), st.binary())
def test_no_answer_is_unreadable(text: str, found: bytes) -> None:
    for one in (found, text.encode(), body(message=text), body(metadata={"headers": text})):
        wait = wait_of(429, {"x-ratelimit-reset": text, **DATED}, one)
        assert wait is None or 0 < wait <= LONGEST_S
