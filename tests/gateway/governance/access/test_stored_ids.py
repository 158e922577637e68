"""No id opens what another key stored: not the gateway's own ids, and not a vendor's.

All clients share the operator's account at a vendor, so each id of something stored there is
refused unless the operator allows it, and is never sent where fields are dropped.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth: {{mode: keys, keys: [{{name: ann, key: key-of-ann}}, {{name: ben, key: key-of-ben}}]}}
responses: {{store: on, timeout_s: 60}}
providers:
  - {{name: chat, adapter: openai, base_url: "{url}", api_key: k}}
  - {{name: whole, adapter: openai-responses, base_url: "{url}", api_key: k}}
  - {{name: claude, adapter: anthropic, base_url: "{url}", api_key: k}}
models:
  - {{name: chat, backends: [{{provider: chat, model: m}}]}}
  - {{name: whole, backends: [{{provider: whole, model: m}}]}}
  - {{name: claude, backends: [{{provider: claude, model: m}}]}}
  - {{name: chat-drops, on_unsupported: drop, backends: [{{provider: chat, model: m}}]}}
  - {{name: whole-drops, on_unsupported: drop, backends: [{{provider: whole, model: m}}]}}
  - {{name: claude-drops, on_unsupported: drop, backends: [{{provider: claude, model: m}}]}}
"""
ID = "of-ann-0198c0de"
URL = f"https://{ID}.test/mcp"
HELLO = [{"role": "user", "content": "hi"}]
Json = Mapping[str, Any]


def part(**one: object) -> list[Json]:
    return [{"role": "user", "content": [{"type": "text", "text": "hi"}, one]}]


def given(**one: object) -> list[Json]:
    return [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, one]}]


CHAT: dict[str, Json] = {
    "response": {"previous_response_id": ID},
    "conversation": {"conversation": ID},
    "thread": {"thread_id": ID},
    "assistant": {"assistant_id": ID},
    "container": {"container": ID},
    "file": {"messages": part(type="file", file={"file_id": ID})},
    "vector store": {"tools": [{"type": "file_search", "vector_store_ids": [ID]}]},
    "mcp server": {"tools": [{"type": "mcp", "server_label": "a", "server_url": URL}]},
}
MESSAGES: dict[str, Json] = {
    "container": {"container": ID},
    "profile": {"user_profile_id": ID},
    "file": {"messages": part(type="document", source={"type": "file", "file_id": ID})},
    "image": {"messages": part(type="image", source={"type": "file", "file_id": ID})},
    "mcp server": {"mcp_servers": [{"type": "url", "url": URL, "name": "a"}]},
}
RESPONSES: dict[str, Json] = {
    "response": {"previous_response_id": f"resp_{ID}"},
    "conversation": {"conversation": ID},
    "prompt": {"prompt": {"id": ID}},
    "item": {"input": [{"type": "item_reference", "id": f"msg_{ID}"}]},
    "file": {"input": given(type="input_file", file_id=ID)},
    "image": {"input": given(type="input_image", file_id=ID)},
    "vector store": {"tools": [{"type": "file_search", "vector_store_ids": [ID]}]},
    "container": {"tools": [{"type": "code_interpreter", "container": ID}]},
    "mcp server": {"tools": [{"type": "mcp", "server_label": "a", "server_url": URL}]},
    "connector": {"tools": [{"type": "mcp", "server_label": "a", "connector_id": ID}]},
}
ASKS: dict[str, tuple[str, str, Json]] = {
    **{f"chat, {name}": ("/v1/chat/completions", "chat", one) for name, one in CHAT.items()},
    **{f"messages, {name}": ("/v1/messages", "claude", one) for name, one in MESSAGES.items()},
    **{f"responses, {name}": ("/v1/responses", "whole", one) for name, one in RESPONSES.items()},
}
BARE: Mapping[str, Json] = {
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/messages": {"messages": HELLO, "max_tokens": 8},
    "/v1/responses": {"input": "hi"},
}


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    remote: Provider
    client: httpx.AsyncClient

    async def ask(self, path: str, model: str, fields: Json, key: str) -> httpx.Response:
        return await self.client.post(
            path,
            json={"model": model, **BARE[path], **fields},
            headers={"authorization": f"Bearer key-of-{key}"},
        )


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        folder = tmp_path_factory.mktemp("run")
        store = open_store(Secret(f"sqlite:///{folder / 'store.db'}"))
        stack.callback(store.close)

        def equip(state: Gateway) -> None:
            rows = store.stored_responses
            archive = ResponseArchive(store, rows, lambda: state.runtime.config.responses)
            state.side(StoredResponsesSide).archive = archive

        text = CONFIG.format(url=remote.base_url)
        gateway = await stack.enter_async_context(serving(text, folder, equip=equip))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=gateway.url, timeout=60)
        )
        yield Rig(gateway=gateway, remote=remote, client=client)


@pytest.mark.parametrize("key", ["ann", "ben"])
@pytest.mark.parametrize("name", ASKS)
async def test_an_id_of_what_a_vendor_stores_is_refused(rig: Rig, name: str, key: str) -> None:
    path, model, fields = ASKS[name]
    before = len(rig.remote.requests)

    answer = await rig.ask(path, model, fields, key)

    assert answer.status_code in (403, 404), answer.text
    assert len(rig.remote.requests) == before


@pytest.mark.parametrize("name", ASKS)
async def test_where_fields_are_dropped_no_id_is_sent(rig: Rig, name: str) -> None:
    path, model, fields = ASKS[name]
    before = len(rig.remote.requests)

    answer = await rig.ask(path, f"{model}-drops", fields, "ben")

    assert all(ID.encode() not in one.body for one in rig.remote.requests[before:])
    if len(rig.remote.requests) > before:
        assert answer.headers["x-gateway-dropped-params"]
    else:
        assert answer.status_code in (403, 404), answer.text


async def test_what_one_key_stored_is_unknown_to_another(rig: Rig) -> None:
    stored = (await rig.ask("/v1/responses", "chat", {}, "ann")).json()
    item = stored["output"][0]["id"]
    head = {"authorization": "Bearer key-of-ben"}
    url = f"/v1/responses/{stored['id']}"
    continued = {"previous_response_id": stored["id"]}
    referred = {"input": [{"type": "item_reference", "id": item}]}

    refused = [
        await rig.ask("/v1/responses", "chat", continued, "ben"),
        await rig.ask("/v1/responses", "chat", referred, "ben"),
        await rig.client.get(url, headers=head),
        await rig.client.get(f"{url}/input_items", headers=head),
        await rig.client.post(f"{url}/cancel", headers=head),
        await rig.client.delete(url, headers=head),
    ]
    own = await rig.ask("/v1/responses", "chat", continued, "ann")

    assert stored["store"] is True
    assert [one.status_code for one in refused] == [404] * 6
    assert own.status_code == 200, own.text
