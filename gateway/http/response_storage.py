"""Store answers before they leave, and fetch what a request continues."""

import time
from functools import partial
from typing import TYPE_CHECKING

from gateway.access.key_shares import Slot
from gateway.asgi.body_complexity import measure
from gateway.asgi.disconnect import DisconnectGuard
from gateway.asgi.exchange import HotExchange
from gateway.asgi.response import ResponseWriter
from gateway.routing.request_record import RequestRecord
from gateway.state import Gateway
from gateway.store.response_rows import StoredResponse
from gateway.surfaces.base import Renderer, Surface
from gateway.surfaces.stored_items import EarlierItemsNeeded
from schemas.answers import Answer
from schemas.errors import Unavailable
from schemas.plain_answer import PlainAnswer
from schemas.requests import ChatRequest, Request, Storage

if TYPE_CHECKING:
    from gateway.surfaces.responses.render import ResponsesRenderer

_FIELD = "store"


async def continued(
    needed: EarlierItemsNeeded,
    exchange: HotExchange,
    gateway: Gateway,
    record: RequestRecord,
    held: Slot,
    directly: int,
) -> Request:
    """Return the request with the stored items that it needs.

    directly: bytes that are parsed directly in the event loop. Raises ResponseNotFound,
    StoreUnavailable, and InvalidRequest if the conversation is too long.
    """
    archive, server = gateway.archive, gateway.runtime.config.server
    if archive is None:
        raise Unavailable("nothing is stored at the moment")
    with DisconnectGuard(exchange):
        earlier = await archive.earlier(record.caller, needed, server.max_body_bytes)
        size = len(earlier.items) + sum(len(bytes(item)) for item in earlier.found.values())
        held.buffer(size)
        if size + needed.size <= directly:
            return needed.resume(earlier)
        record.large = True
        async with gateway.large_bodies.slot(record.caller):
            weigh = partial(measure, earlier.items, len(earlier.items))
            weight = await gateway.large_bodies.run(weigh)
            held.buffer(weight.size)
            return await gateway.large_bodies.run(partial(needed.resume, earlier))


def wants_storage(request: ChatRequest) -> bool:
    """Return whether the answer is to be stored."""
    storage = None if request.original is None else request.original.storage
    return storage is not None and storage.store


async def stored_body(
    answer: Answer | PlainAnswer,
    request: ChatRequest,
    surface: Surface,
    record: RequestRecord,
    gateway: Gateway,
) -> bytes:
    """Store a whole answer that its client wants stored. Return its body."""
    kept = storing(request, surface.renderer(request, record.request_id), record, gateway)
    assert kept is not None
    return await kept.body(answer)


def storing(
    request: Request, renderer: Renderer, record: RequestRecord, gateway: Gateway
) -> "AnswerStorage | None":
    """Return the storage of an answer that the client wants stored; `None` for any other."""
    if type(request) is not ChatRequest or request.original is None:
        return None
    storage = request.original.storage
    if storage is None or not storage.store:
        return None
    # Late, because few gateways serve this surface: it is imported with its first request.
    from gateway.surfaces.responses.render import ResponsesRenderer

    if type(renderer) is not ResponsesRenderer:
        return None
    return AnswerStorage(storage, renderer, record, gateway)


class AnswerStorage:
    """Stores one answer, which says whether it is stored."""

    def __init__(
        self,
        storage: Storage,
        renderer: "ResponsesRenderer",
        record: RequestRecord,
        gateway: Gateway,
    ) -> None:
        self._storage = storage
        self._renderer = renderer
        self._record = record
        self._archive = gateway.archive

    async def body(self, answer: Answer | PlainAnswer) -> bytes:
        """Store a whole answer. Return its body."""
        renderer = self._renderer
        plain = type(answer) is PlainAnswer
        body = renderer.plain(answer) if plain else renderer.answer(answer)
        if await self._store():
            return body
        self._record.dropped = (*self._record.dropped, _FIELD)
        return renderer.on_not_stored()

    async def end(self, response: ResponseWriter) -> None:
        """Send the end of all items, then store the answer, before the last event of a stream."""
        await response.frame(self._renderer.end_items())
        if not await self._store():
            self._renderer.on_not_stored()

    async def _store(self) -> bool:
        archive, storage, renderer = self._archive, self._storage, self._renderer
        if archive is None:
            return False
        given, output, resource = bytes(storage.input), renderer.output, renderer.resource
        items = len(given) + len(output)
        row = StoredResponse(
            id=renderer.id,
            key=self._record.caller,
            time=time.time(),
            previous=storage.previous,
            root=storage.root or renderer.id,
            input=given.decode(),
            output=output.decode(),
            resource=resource.decode(),
            item_bytes=items,
            bytes=items + len(resource),
        )
        return await archive.add(row) == "stored"
