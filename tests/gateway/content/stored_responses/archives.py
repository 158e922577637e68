"""A gateway that stores responses, two keys, and a provider that shows what it was sent."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import openai
from msgspec import Struct
from openai.types.responses import Response, ResponseCompletedEvent, ResponseIncompleteEvent

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.archive import ResponseArchive
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.response_rows import ResponseRows
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

Json = dict[str, object]

KEYS = "auth: {mode: keys, keys: [{name: ann, key: key-of-ann-1}, {name: ben, key: key-of-ben-1}]}"
ON = "responses: {store: on, timeout_s: 60}"


async def counts(request: Received, answer: Answer) -> None:
    """Answer with the number of messages."""
    messages = cast("Sequence[object]", request.json["messages"])
    text = f"{len(messages)} messages"
    if request.json.get("stream"):
        await answer.stream(*text.split(" "))
    else:
        await answer.chat(text)


class Archived(Struct, frozen=True, kw_only=True, eq=False):
    """ann, ben: OpenAI's client with the key of each. store: the gateway's own."""

    gateway: Serving
    remote: Provider
    ann: openai.AsyncOpenAI
    ben: openai.AsyncOpenAI
    store: SqlStore
    archive: ResponseArchive

    def sent(self, number: int = -1) -> list[Json]:
        """Return the messages of a request that the provider received."""
        return cast("list[Json]", self.remote.requests[number].json["messages"])

    def rows(self) -> int:
        return rows_of(self.store)


def rows_of(store: SqlStore) -> int:
    with store._database.reading() as session:  # pyright: ignore[reportPrivateUsage]
        return session.rows(tuple[int], "SELECT COUNT(*) FROM stored_responses")[0][0]


@asynccontextmanager
async def archived(
    folder: Path,
    settings: str = ON,
    url: Secret | None = None,
    rows_in: Callable[[Database], ResponseRows] = ResponseRows,
) -> AsyncGenerator[Archived, None]:
    """rows_in: makes what the archive reads and writes with."""
    store = open_store(url or Secret(f"sqlite:///{folder / 'store.db'}"))
    archives: list[ResponseArchive] = []

    def equip(state: Gateway) -> None:
        rows = rows_in(store.database)
        archive = ResponseArchive(
            store,
            rows,
            lambda: state.runtime.config.responses,
            lambda: state.runtime.config.store.min_free_bytes,
        )
        state.side(StoredResponsesSide).archive = archive
        archives.append(archive)

    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        remote = await stack.enter_async_context(provider(counts))
        config = one_model(remote.base_url, f"{KEYS}\n{settings}")
        gateway = await stack.enter_async_context(serving(config, folder, equip=equip))
        stack.callback(archives[0].close)
        clients = [
            await stack.enter_async_context(client_of(gateway.url, f"key-of-{name}-1"))
            for name in ("ann", "ben")
        ]
        yield Archived(
            gateway=gateway,
            remote=remote,
            ann=clients[0],
            ben=clients[1],
            store=store,
            archive=archives[0],
        )


def client_of(url: str, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def error_of(raised: openai.APIStatusError) -> tuple[int, Json]:
    """Return the status and the error without the request's id."""
    return raised.status_code, cast("Json", json.loads(raised.response.text)["error"])


async def ask(client: openai.AsyncOpenAI, *, stream: bool = False, **fields: object) -> Response:
    """Post, and return the answer: of a stream, what its last event has."""
    body: Json = {"input": "hi", **fields}
    if not stream:
        return await client.responses.create(model="chat", input="", extra_body=body)
    events = await client.responses.create(model="chat", input="", stream=True, extra_body=body)
    last = [event async for event in events][-1]
    assert isinstance(last, ResponseCompletedEvent | ResponseIncompleteEvent)
    return last.response
