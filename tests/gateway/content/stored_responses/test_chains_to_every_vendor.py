"""What is stored of an answer reaches every vendor as if the client had sent it back."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.backends.vendors.dialect import Json, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor
from tests.gateway.surfaces.responses.openai_client import (
    HI,
    MADE,
    PROOF,
    TOOLS,
    ResponsesOf,
    fed_back,
    responses_of_every_vendor,
)

pytestmark = pytest.mark.anyio

CHATTING = [one for one in VENDORS if one.task == "chat"]


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ResponsesOf, None]:
    folder = tmp_path_factory.mktemp("run")
    store = open_store(Secret(f"sqlite:///{folder / 'store.db'}"))

    def equip(state: Gateway) -> None:
        rows = store.stored_responses
        archive = ResponseArchive(store, rows, lambda: state.runtime.config.responses)
        state.side(StoredResponsesSide).archive = archive

    async with responses_of_every_vendor(
        folder, "\nresponses: {store: on, timeout_s: 60}\n", equip
    ) as found:
        yield found
    store.close()


@pytest.mark.parametrize("vendor", CHATTING, ids=lambda one: one.name)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_chain_is_the_same_request_as_the_whole_conversation(
    gateway: ResponsesOf, vendor: Vendor, *, stream: bool
) -> None:
    said = Said(text=(), thought="Hm.", proof=PROOF, calls=MADE["parallel"])
    gateway.plays(vendor, said if vendor.proofs else Said(text=(), calls=MADE["parallel"]))
    asked = await gateway.ask(vendor, {"input": [HI], "tools": TOOLS}, stream=stream)
    gateway.plays(vendor, Said())
    whole = fed_back(asked)
    new = cast("list[Json]", whole["input"])[1 + len(asked.output) :]

    await gateway.ask(vendor, whole, stream=stream)
    await gateway.ask(
        vendor, {**whole, "input": new, "previous_response_id": asked.id}, stream=stream
    )

    by_client, by_id = [json.loads(one.body) for one in gateway.setting.server.requests[-2:]]
    assert by_id == by_client
