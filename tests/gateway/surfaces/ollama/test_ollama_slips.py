"""Requests to Ollama's API that are nearly right, and very large ones."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.surfaces.ollama.parse import parse_chat
from tests.gateway.surfaces.ollama.vendors import Vendors, vendors

pytestmark = pytest.mark.anyio

HI: dict[str, Any] = {
    "model": "gpt",
    "stream": False,
    "messages": [{"role": "user", "content": "a"}],
}


class Rig:
    def __init__(self, at: Vendors, web: httpx.AsyncClient) -> None:
        self.at, self.web = at, web

    @property
    def sent(self) -> dict[str, Any]:
        return self.at.gpt.requests[-1].json


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async with (
        vendors(tmp_path_factory.mktemp("run")) as at,
        httpx.AsyncClient(base_url=at.gateway.url, timeout=60) as web,
    ):
        yield Rig(at, web)


async def test_an_integer_with_a_fraction_is_cut_as_an_ollama_server_cuts_it(rig: Rig) -> None:
    """Clients in JavaScript, and programs with number fields, send 128.0."""
    options = {"num_predict": 128.0, "top_k": 40.7, "seed": 7e0, "temperature": 1}
    answer = await rig.web.post("/api/chat", json={**HI, "options": options})
    wrong = await rig.web.post("/api/chat", json={**HI, "options": {"num_predict": "ten"}})

    assert answer.status_code == 200, answer.text
    assert (rig.sent["max_tokens"], rig.sent["seed"]) == (128, 7)
    assert wrong.status_code == 400
    assert wrong.json() == {"error": "options.num_predict must be an integer"}


async def test_an_empty_context_begins_a_conversation(rig: Rig) -> None:
    body: dict[str, Any] = {"model": "gpt", "stream": False, "prompt": "hi", "context": []}
    answer = await rig.web.post("/api/generate", json=body)

    assert answer.status_code == 200, answer.text
    assert rig.sent["messages"] == [{"role": "user", "content": "hi"}]
    assert answer.json()["context"]


@pytest.mark.parametrize("path", ["/v1/api/chat", "/api/api/chat", "//api/chat", "/api/chat/"])
async def test_a_base_url_with_too_much_leads_to_the_model(rig: Rig, path: str) -> None:
    answer = await rig.web.post(f"{rig.at.gateway.url}{path}", json=HI)
    listed = await rig.web.get(f"{rig.at.gateway.url}{path.replace('chat', 'tags')}")

    assert answer.status_code == 200, answer.text
    assert answer.json()["done"] is True
    assert listed.json()["models"]


@pytest.mark.parametrize("named", [{"tool_call_id": "other"}, {"tool_name": "other"}])
def test_a_conversation_of_many_calls_is_read_in_time_that_grows_with_its_size(
    named: dict[str, str],
) -> None:
    """Ten thousand calls, and as many results that belong to none of them."""
    many = 10_000
    calls = [{"id": f"c{at}", "function": {"name": f"w{at}"}} for at in range(many)]
    results = [{"role": "tool", "content": "", **named} for _ in range(many)]
    turns = [{"role": "assistant", "tool_calls": calls}, *results]

    read = parse_chat(json.dumps({"model": "m", "messages": turns}).encode())

    assert len(read.messages) == many + 1
