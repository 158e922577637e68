"""Each error has the status and the code of docs/reference/errors.md, in its API's format."""

from collections.abc import AsyncGenerator

import httpx
import pytest

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{name: ann, key: key-of-ann-1}]
responses: {store: on, timeout_s: 60}
"""
DEAD = """
  - name: dead
    retry: {attempts: 1}
    backends: [{provider: nowhere, model: m}]
"""
NOWHERE = """providers:
  - {name: nowhere, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}"""
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
RESPONSE = {"model": "chat", "input": "hi"}
MESSAGES = {**CHAT, "max_tokens": 5}

CASES = [
    ("/v1/chat/completions", {**CHAT, "messages": "hi"}, 400, "invalid_request"),
    ("/v1/chat/completions", {**CHAT, "model": "none"}, 404, "model_not_found"),
    ("/v1/chat/completions", {**CHAT, "model": "dead"}, 502, "upstream_unreachable"),
    ("/v1/chat/completion", CHAT, 404, "unknown_url"),
    ("/v1/messages", {**MESSAGES, "model": "dead"}, 500, "upstream_unreachable"),
    ("/v1/responses", {**RESPONSE, "conversation": "conv_1"}, 404, "conversation_not_found"),
    ("/v1/responses", {**RESPONSE, "prompt": {"id": "pmpt_1"}}, 404, "prompt_not_found"),
    (
        "/v1/responses",
        {**RESPONSE, "previous_response_id": "resp_1"},
        404,
        "previous_response_not_found",
    ),
]


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[httpx.AsyncClient]:
    """A client with Ann's key, of a gateway that stores responses."""
    folder = tmp_path_factory.mktemp("codes")
    store = open_store(Secret(f"sqlite:///{folder / 'store.db'}"))

    def equip(state: Gateway) -> None:
        rows = store.stored_responses
        archive = ResponseArchive(store, rows, lambda: state.runtime.config.responses)
        state.side(StoredResponsesSide).archive = archive

    async with provider(answers) as remote:
        config = one_model(remote.base_url, CONFIG, DEAD).replace("providers:", NOWHERE, 1)
        async with (
            serving(config, folder, equip=equip) as up,
            httpx.AsyncClient(
                base_url=up.url, headers={"authorization": "Bearer key-of-ann-1"}, timeout=60
            ) as found,
        ):
            yield found
    store.close()


@pytest.mark.parametrize(("path", "body", "status", "code"), CASES)
async def test_an_error_has_the_status_and_the_code_of_the_reference(
    client: httpx.AsyncClient, path: str, body: object, status: int, code: str
) -> None:
    answer = await client.post(path, json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


async def test_a_stored_response_that_does_not_exist_has_a_code(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/responses/resp_1")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "response_not_found")


async def test_a_body_that_is_no_json_has_a_code(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/chat/completions", content=b"a=b", headers={"content-type": "x/y"}
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media_type")
