"""Status and code select the error; the vendor's message is forwarded."""

import msgspec
import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.secret import Secret
from tests.adapters.openai.openai_doubles import KEY, openai


def error(status: int, body: object = None, **headers: str) -> GatewayError:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body or {})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return openai().error(status, named, raw)


def told(**fields: object) -> dict[str, object]:
    return {"error": {"message": "boom", **fields}}


def test_the_clients_fault_keeps_status_type_param_and_code() -> None:
    fault = error(400, told(type="invalid_request_error", param="n", code="too_small"))

    assert isinstance(fault, UpstreamRejected)
    assert (fault.status, fault.type, fault.param, fault.code, fault.message, fault.upstream) == (
        400,
        "invalid_request_error",
        "n",
        "too_small",
        "boom",
        "acme",
    )


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422, 431])
def test_a_4xx_about_the_request_is_the_clients(status: int) -> None:
    fault = error(status, told())

    assert isinstance(fault, UpstreamRejected)
    assert fault.status == status


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (401, {"code": "invalid_api_key"}),
        (402, {}),
        (403, {}),
        (405, {}),
        (407, {}),
        (410, {"type": "invalid_request_error"}),
        (404, {"code": "model_not_found"}),
        (404, {"type": "NotFoundError", "param": "model"}),
        (400, {"code": "model_not_found"}),
        (429, {"code": "insufficient_quota"}),
        (429, {"type": "insufficient_quota"}),
    ],
)
def test_key_quota_and_deployment_are_the_operators(status: int, fields: dict[str, str]) -> None:
    assert isinstance(error(status, told(**fields)), UpstreamRefused)


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (404, {}),
        (404, {"code": "model_not_found"}),
        (404, {"type": "NotFoundError", "param": "model"}),
        (400, {"code": "model_not_found"}),
    ],
)
def test_a_model_that_the_provider_lacks_has_its_own_code(
    status: int, fields: dict[str, str]
) -> None:
    assert error(status, told(**fields)).code == "upstream_model_unknown"


def test_something_else_that_is_not_found_is_the_clients() -> None:
    assert isinstance(error(404, told(param="messages[0].content[1].file_id")), UpstreamRejected)


def test_a_429_has_the_time_to_wait() -> None:
    fault = error(429, told(code="rate_limit_exceeded"), retry_after="7")

    assert isinstance(fault, UpstreamBusy)
    assert fault.retry_after == 7.0
    assert str(fault) == "acme: boom"


@pytest.mark.parametrize("status", [408, 504])
def test_a_server_that_ran_out_of_time_timed_out(status: int) -> None:
    assert isinstance(error(status, b"upstream request timeout"), UpstreamTimeout)


@pytest.mark.parametrize("status", [424, 499, 500, 502, 520])
def test_a_server_that_failed_may_send_a_retry_delay(status: int) -> None:
    fault = error(status, b"<html><title>Bad Gateway</title></html>", retry_after="3")

    assert isinstance(fault, UpstreamFailed)
    assert fault.retry_after == 3.0
    assert str(fault) == "acme: Bad Gateway"


@pytest.mark.parametrize("status", [503, 529])
def test_a_service_with_too_much_to_do_is_overloaded(status: int) -> None:
    fault = error(status, b'{"error": {"message": "Overloaded"}}', retry_after="3")

    assert isinstance(fault, UpstreamOverloaded)
    assert (fault.status, fault.code, fault.retry_after) == (503, "upstream_overloaded", 3.0)


def test_an_error_without_a_message_shows_its_status() -> None:
    assert str(error(503, b"")) == "acme: answered with status 503"


def test_neither_the_key_nor_a_secret_header_is_in_the_text() -> None:
    header = "Bearer abcdefgh-12345678"
    endpoint = Endpoint(
        name="acme",
        base_url="http://a.test",
        key=Secret(KEY),
        headers=(("x-auth", header), ("x-team", "blue")),
    )
    text = f"Incorrect API key {KEY} or {header} for blue"

    fault = OpenAIAdapter(endpoint).error(401, {}, msgspec.json.encode(told(message=text)))

    assert str(fault) == "acme: Incorrect API key *** or *** for blue"
