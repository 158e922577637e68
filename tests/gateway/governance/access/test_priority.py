"""A priority that is more urgent than the key allows is lowered to the key's, and named."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Provider, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
  - name: fast
    defaults: {priority: 1}
    backends: [{provider: remote, model: m-2}]
  - {name: vendor, backends: [{provider: vendor, model: gpt-4o}]}
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys:
    - {name: usual, key: key-of-the-usual}
    - {name: urgent, key: key-of-the-urgent, max_priority: 1}
    - {name: patient, key: key-of-the-patient, max_priority: 5}
"""
VENDOR = "{name: vendor, adapter: openai, api_key: key-of-the-vendor}"
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
TEXT = {"model": "chat", "prompt": "hi"}
"""Priorities are -4 (1) to 0 (5) at vLLM, which is 5 where there is none."""


@pytest.fixture(scope="module")
async def remote() -> AsyncGenerator[Provider]:
    async with provider(answers) as found:
        yield found


@pytest.fixture(scope="module")
async def gateway(
    remote: Provider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Serving]:
    config = one_model(remote.base_url, CONFIG).replace("adapter: openai", "adapter: vllm")
    config = config.replace("providers:", f"providers:\n  - {VENDOR}", 1)
    async with serving(config, tmp_path_factory.mktemp("priority")) as found:
        yield found


async def post(gateway: Serving, key: str, path: str, body: object) -> httpx.Response:
    headers = {"authorization": f"Bearer key-of-the-{key}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        return await client.post(path, json=body)


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v1/chat/completions", {**CHAT, "priority": 1}, "priority"),
        ("/v1/chat/completions", {**CHAT, "priority": 2, "stream": True}, "priority"),
        ("/v1/completions", {**TEXT, "priority": 1}, "priority"),
        (
            "/v2/models/chat/infer",
            {
                "inputs": [
                    {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["hi"]},
                    {
                        "name": "request_output_len",
                        "datatype": "INT32",
                        "shape": [1],
                        "data": [5],
                    },
                ],
                "parameters": {"priority": 1},
            },
            "parameters.priority",
        ),
    ],
)
async def test_a_priority_above_the_keys_is_lowered_and_named(
    gateway: Serving, remote: Provider, path: str, body: object, named: str
) -> None:
    answer = await post(gateway, "usual", path, body)

    assert answer.status_code == 200, answer.text
    assert remote.requests[-1].json["priority"] == -2
    assert answer.headers["x-gateway-repairs"] == f"{named}:max_priority"
    assert gateway.access_lines()[-1].repaired == ("priority:max_priority",)


@pytest.mark.parametrize(
    ("key", "asked", "sent"),
    [("usual", 3, -2), ("usual", 4, -1), ("urgent", 1, -4), ("urgent", 2, -3)],
)
async def test_a_priority_that_the_key_may_use_is_sent_as_it_is(
    gateway: Serving, remote: Provider, key: str, asked: int, sent: int
) -> None:
    answer = await post(gateway, key, "/v1/chat/completions", {**CHAT, "priority": asked})

    assert remote.requests[-1].json["priority"] == sent
    assert "x-gateway-repairs" not in answer.headers


async def test_the_least_urgent_key_is_served_like_a_request_without_a_priority(
    gateway: Serving, remote: Provider
) -> None:
    answer = await post(gateway, "patient", "/v1/chat/completions", {**CHAT, "priority": 1})

    assert "priority" not in remote.requests[-1].json
    assert answer.headers["x-gateway-repairs"] == "priority:max_priority"


async def test_a_models_default_is_the_operators_own_and_stays(
    gateway: Serving, remote: Provider
) -> None:
    answer = await post(gateway, "usual", "/v1/chat/completions", {**CHAT, "model": "fast"})

    assert remote.requests[-1].json["priority"] == -4
    assert "x-gateway-repairs" not in answer.headers


async def test_explain_names_the_lowered_priority(gateway: Serving, tmp_path: Path) -> None:
    headers = {"authorization": "Bearer key-of-the-operator"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        answer = await client.post("/admin/explain?key=usual", json={**CHAT, "priority": 1})

    (candidate,) = answer.json()["candidates"]
    assert candidate["repaired"] == ["priority:max_priority"]


async def test_a_vendor_without_priorities_gets_the_request_without_one(gateway: Serving) -> None:
    """It is named in `x-gateway-dropped-params`, as all hints are."""
    headers = {"authorization": "Bearer key-of-the-operator"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        answer = await client.post(
            "/admin/explain?key=usual", json={**CHAT, "model": "vendor", "priority": 4}
        )

    (candidate,) = answer.json()["candidates"]
    assert candidate["omitted_content"] == ["priority"]
