"""A vendor that refuses the gateway's own key: clients learn whose matter it is, and stop."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import anthropic
import openai
import pytest
from msgspec import Struct

from tests.gateway.routing.failures.fault_tasks import TASKS
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio


class Refusal(Struct, frozen=True, kw_only=True):
    """What a vendor answers. text: of its message, which clients must not see."""

    adapter: str
    status: int
    body: Mapping[str, object]
    text: str
    more: str = "api_key: k"


def _claude(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}


REFUSALS: Mapping[str, Refusal] = {
    "claude-key": Refusal(
        adapter="anthropic",
        status=401,
        body=_claude("authentication_error", "invalid x-api-key"),
        text="x-api-key",
    ),
    "claude-credit": Refusal(
        adapter="anthropic",
        status=400,
        body=_claude(
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans",
        ),
        text="credit balance",
    ),
    "openai-key": Refusal(
        adapter="openai",
        status=401,
        body={"error": {"message": "Incorrect API key provided: sk-x", "code": "invalid_api_key"}},
        text="API key",
    ),
    "gemini-key": Refusal(
        adapter="gemini",
        status=400,
        body={
            "error": {
                "code": 400,
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                        "reason": "API_KEY_INVALID",
                    }
                ],
            }
        },
        text="API key",
    ),
    "bedrock-token": Refusal(
        adapter="bedrock",
        status=403,
        body={
            "__type": "UnrecognizedClientException",
            "message": "The security token included in the request is invalid.",
        },
        text="security token",
    ),
    "openai-path": Refusal(
        adapter="openai", status=405, body={"detail": "Method Not Allowed"}, text="Method Not"
    ),
    "another-gateway": Refusal(
        adapter="openai",
        status=424,
        body={
            "error": {
                "message": "ant: its vendor refuses the gateway's own credentials or account; x",
                "type": "api_error",
                "code": "upstream_refused",
            }
        },
        text="ant: ",
    ),
}
SURFACES = [
    name
    for name, task in TASKS.items()
    if task.surface in ("openai", "anthropic", "responses", "databricks") and name != "embedding"
]


def config(origin: str) -> str:
    lines = ["providers:"]
    for name, one in REFUSALS.items():
        path = f"{origin}/{name}{'/v1' if one.adapter == 'openai' else ''}"
        lines.append(f"  - {{name: {name}, adapter: {one.adapter}, base_url: {path}, {one.more}}}")
    lines.append("models:")
    lines += [f"  - {{name: {one}, backends: [{{provider: {one}, model: m}}]}}" for one in REFUSALS]
    return "\n".join(lines)


@pytest.fixture(scope="module")
async def remote() -> AsyncGenerator[Provider, None]:
    async def refuse(request: Received, answer: Answer) -> None:
        one = REFUSALS[request.path.split("/")[1]]
        await answer.json(one.body, one.status)

    async with provider(refuse) as running:
        yield running


@pytest.fixture(scope="module")
async def gateway(
    remote: Provider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Serving, None]:
    async with serving(config(remote.origin), tmp_path_factory.mktemp("run")) as running:
        yield running


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_client_reads_that_it_is_the_operators_matter_and_does_not_retry(
    gateway: Serving, surface: str
) -> None:
    task = TASKS[surface]
    for name, refusal in REFUSALS.items():
        if refusal.adapter in ("anthropic", "gemini", "bedrock") and "completion" in surface:
            continue  # they have no completions
        answer = await task.ask(gateway.url, name)

        assert answer.status_code == (400 if task.surface == "responses" else 424), name
        assert answer.headers["x-should-retry"] == "false"
        assert f"{name}: " in answer.text
        assert "only the gateway's operator can" in answer.text
        assert refusal.text not in answer.text


async def test_the_vendors_own_text_is_in_the_log(gateway: Serving) -> None:
    for name in REFUSALS:
        await TASKS["chat"].ask(gateway.url, name)

    logged = {one.model: one.message for one in gateway.access_lines()}
    assert [name for name, one in REFUSALS.items() if one.text not in logged[name]] == []


async def test_vendors_clients_ask_once_and_blame_no_key_of_their_user(
    gateway: Serving, remote: Provider
) -> None:
    before = len(remote.requests)
    claude = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="k")
    caller = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k")

    with pytest.raises(anthropic.APIStatusError) as messages:
        await claude.messages.create(
            model="claude-key", max_tokens=20, messages=[{"role": "user", "content": "hi"}]
        )
    with pytest.raises(openai.APIStatusError) as chat:
        await caller.chat.completions.create(
            model="openai-key", messages=[{"role": "user", "content": "hi"}]
        )
    with pytest.raises(openai.APIStatusError) as responses:
        await caller.responses.create(model="openai-key", input="hi")

    assert not isinstance(messages.value, anthropic.AuthenticationError)
    assert not isinstance(chat.value, openai.AuthenticationError)
    assert [chat.value.code, responses.value.code] == ["upstream_refused"] * 2
    assert [chat.value.type, responses.value.type] == ["api_error"] * 2
    assert len(remote.requests) - before == 3
    await claude.close()
    await caller.close()


async def test_a_model_that_the_vendor_lacks_is_named_to_the_client(tmp_path: Path) -> None:
    """Behind a wildcard the client has chosen the name."""

    async def lacks(request: Received, answer: Answer) -> None:
        error = {"message": "The model `x` does not exist", "code": "model_not_found"}
        await answer.json({"error": error}, 404)

    async with provider(lacks) as remote:
        text = (
            f"providers: [{{name: p, adapter: openai, base_url: {remote.base_url}, api_key: k}}]\n"
            "models: [{name: '*', backends: [{provider: p, model: '*'}]}]\n"
        )
        async with serving(text, tmp_path) as gateway:
            answer = await TASKS["chat"].ask(gateway.url, "x")

    assert answer.status_code == 424
    assert answer.json()["error"]["message"] == "p: The model `x` does not exist"
    assert answer.headers["x-should-retry"] == "false"
