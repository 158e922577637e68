"""No client input is an unhandled error: nesting, encodings and numbers."""

import logging
from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Provider, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = "auth: {admin_key: the-operators-key}"
OPERATOR = {"authorization": "Bearer the-operators-key", "content-type": "application/json"}
DEEP = b'{"a":' * 4_000 + b"1" + b"}" * 4_000
BODIES = {
    "nested objects": b'{"input_id": %b, "inputs": %b}' % (DEEP, DEEP),
    "nested lists": b"[" * 20_000 + b"]" * 20_000,
    "no UTF-8": b'{"messages": "\xff\xfe", "reason": "\xff"}',
    "a huge integer": b'{"input_id": [1], "parameters": {"top_k": 1%b}}' % (b"0" * 400),
    "a huge float": b'{"value": 1e999, "messages": [], "temperature": 1e999}',
    "half a pair": b'{"messages": [{"role": "user", "content": "\\ud800"}], "reason": "\\ud800"}',
    "NUL": b"\0",
    "nothing": b"",
    "null": b"null",
}
PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/infer_token",
    "/serving-endpoints/chat/invocations",
    "/serving-endpoints/chat/completions",
    "/v2/models/chat/infer",
    "/v2/models/chat/generate",
    "/v2/repository/index",
    "/v1/feedback",
    "/admin/explain",
    "/admin/explain?path=/infer_token",
    "/admin/explain?path=openai&model=%ff%00",
    "/admin/experiments/none/pause",
    "/admin/sign-in",
)


@pytest.fixture(scope="module")
async def gateway(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[tuple[Serving, Provider], None]:
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url, CONFIG), tmp_path_factory.mktemp("run")) as running,
    ):
        yield running, remote


@pytest.mark.parametrize("body", BODIES)
async def test_what_cannot_be_read_is_the_clients_fault(
    gateway: tuple[Serving, Provider], caplog: pytest.LogCaptureFixture, body: str
) -> None:
    running, _ = gateway
    found: dict[str, int] = {}

    with caplog.at_level(logging.WARNING):
        async with httpx.AsyncClient(headers=OPERATOR, timeout=60) as client:
            for path in PATHS:
                answer = await client.post(running.url + path, content=BODIES[body])
                found[path] = answer.status_code

    wrong = {path: status for path, status in found.items() if status >= 500 and status != 503}
    assert not wrong
    assert not [one for one in caplog.records if one.exc_info]


async def test_a_number_that_fits_no_float_is_refused_by_name(
    gateway: tuple[Serving, Provider],
) -> None:
    body = b'{"input_id": [1], "parameters": {"seed": 1%b}}' % (b"0" * 400)
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{gateway[0].url}/infer_token", content=body)

    assert answer.status_code in (400, 422)
    assert "seed" in answer.text
