"""What a vendor refuses is recognised: the operator's account, the model, or the request."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_from, error_inside
from strowger_gateway.adapters.refusals.cause import SIGNS
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBusy,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.secret import Secret
from tests.adapters.refusals.more_vendor_bodies import SENT
from tests.adapters.refusals.vendor_bodies import Sent

REGISTRY = Registry(())


def endpoint() -> Endpoint:
    return Endpoint(name="p", base_url="https://p.test/v1", key=Secret("sk-0123456789"))


def error_of(sent: Sent) -> GatewayError:
    adapter = REGISTRY.build(sent.adapter, endpoint())
    return adapter.error(sent.status, sent.headers, sent.raw)


@pytest.mark.parametrize("sent", SENT, ids=lambda one: one.vendor)
def test_what_a_vendor_refuses_is_recognised(sent: Sent) -> None:
    error = error_of(sent)

    about = error.about if isinstance(error, UpstreamRefused) else None
    assert about == sent.about, error
    if about is None:
        assert isinstance(error, UpstreamBusy | UpstreamRejected)
    else:
        assert isinstance(error, UpstreamRefused)
        assert error.counts is (about in ("account", "address", "model"))


@pytest.mark.parametrize("wait", [0, 7, 86_400])
def test_a_refusal_says_how_long_to_wait_if_the_vendor_does(wait: int) -> None:
    body = b'{"error": {"code": "insufficient_quota"}}'

    error = error_from(endpoint(), 429, {"retry-after": str(wait)}, body)

    assert isinstance(error, UpstreamRefused)
    assert error.retry_after == wait


@pytest.mark.parametrize(
    ("body", "about"),
    [
        ({"code": "insufficient_quota"}, "account"),
        ({"message": "Insufficient credits", "code": 402}, "account"),
        ({"message": "Incorrect API key provided: xa***. You can get one"}, "account"),
        ({"type": "authentication_error"}, "account"),
        ({"code": "model_not_found"}, "model"),
        ({"message": "Your input was flagged", "code": 403}, "request"),
    ],
)
def test_a_refusal_inside_a_200_is_recognised(body: object, about: str) -> None:
    error = error_inside(endpoint(), json.dumps({"error": body}).encode())

    assert isinstance(error, UpstreamRefused)
    assert error.about == about


PREFIXES = ("messages[0].content: ", "Unknown parameter: '", "x: ", "No such file: ")


@given(
    sent=st.sampled_from(SENT),
    status=st.sampled_from([400, 403, 404, 409, 413, 422]),
    prefix=st.sampled_from(PREFIXES),
)
def test_no_text_of_a_client_makes_a_refusal_one_of_the_account(
    sent: Sent, status: int, prefix: str
) -> None:
    """A vendor that repeats what the client sent has its own words before it."""
    text = str(error_of(sent)).removeprefix("p: ")
    body = json.dumps({"error": {"message": prefix + text, "type": "invalid_request_error"}})

    error = error_from(endpoint(), status, {}, body.encode())

    assert not isinstance(error, UpstreamRefused) or error.about in ("unclear", "request")


@given(sent=st.sampled_from(SENT), status=st.sampled_from([400, 403, 404, 422]))
def test_no_refusal_that_names_a_field_is_one_of_the_account(sent: Sent, status: int) -> None:
    text = str(error_of(sent)).removeprefix("p: ")
    body = json.dumps({"error": {"message": text, "param": "input[0].file_id"}})

    error = error_from(endpoint(), status, {}, body.encode())

    assert not isinstance(error, UpstreamRefused) or error.about == "request"


def test_every_sign_has_a_source_and_something_to_recognise() -> None:
    for sign in SIGNS:
        assert sign.sources, sign.vendor
        assert all(one.startswith("https://") for one in sign.sources), sign.vendor
        assert sign.words or sign.text, sign.vendor
        assert sign.words == {word.lower() for word in sign.words}, sign.vendor
