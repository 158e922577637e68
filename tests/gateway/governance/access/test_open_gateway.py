"""A gateway without keys serves local programs, and no pages of other sites."""

import json
from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

PATH = "/v1/chat/completions"
BODY = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
RAW = json.dumps(BODY).encode()
CONFIG = """
server:
  allowed_hosts: [gateway.internal]
  cors: {allow_origins: ["https://app.example"]}
"""


@pytest.fixture(scope="module")
async def gateway(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Serving, None]:
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url, CONFIG), tmp_path_factory.mktemp("run")) as running,
    ):
        yield running


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("a.localhost", 200),
        ("127.0.0.1:1", 200),
        ("127.9.9.9", 200),
        ("[::1]:80", 200),
        ("GATEWAY.internal:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("169.254.169.254", 403),
        ("[::2]", 403),
    ],
)
async def test_only_names_of_this_machine_are_served(
    gateway: Serving, host: str, status: int
) -> None:
    async with httpx.AsyncClient(headers={"host": host}, timeout=60) as client:
        found = [
            await client.post(gateway.url + PATH, json=BODY),
            await client.get(f"{gateway.url}/v1/models"),
        ]

    assert [one.status_code for one in found] == [status, status]
    if status == 403:
        assert found[0].json()["error"]["code"] == "host_not_allowed"
        assert "server.allowed_hosts" in found[0].json()["error"]["message"]


PAGES: dict[str, tuple[dict[str, str], int]] = {
    "no browser": ({}, 200),
    "another site": ({"origin": "https://evil.example"}, 403),
    "a file": ({"origin": "null"}, 403),
    "another port": ({"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, 403),
    "across sites": ({"sec-fetch-site": "cross-site"}, 403),
    "the gateway's own": ({"sec-fetch-site": "same-origin", "origin": "http://localhost"}, 200),
    "typed in": ({"sec-fetch-site": "none"}, 200),
    "the gateway's own, old browser": ({"origin": "http://localhost"}, 200),
    "one that is allowed": ({"origin": "https://app.example"}, 200),
    "one that is allowed, new browser": (
        {"origin": "https://app.example", "sec-fetch-site": "cross-site"},
        200,
    ),
}


@pytest.mark.parametrize("page", PAGES)
async def test_pages_of_other_sites_send_nothing(gateway: Serving, page: str) -> None:
    headers, status = PAGES[page]
    async with httpx.AsyncClient(headers={"host": "localhost", **headers}, timeout=60) as client:
        plain = await client.post(gateway.url + PATH, content=RAW)
        listed = await client.get(f"{gateway.url}/v1/models")

    assert plain.status_code == status
    assert listed.status_code == 200
    if status == 403:
        assert plain.json()["error"]["code"] == "cross_site"


async def test_a_refusal_is_in_the_surfaces_error_format(gateway: Serving) -> None:
    async with httpx.AsyncClient(headers={"host": "evil.example"}, timeout=60) as client:
        found = await client.post(f"{gateway.url}/v2/models/chat/infer", json={})

    assert found.status_code == 403
    assert "allowed_hosts" in found.json()["error"]
