"""Store or seal answers before they leave, and fetch or open what a request continues."""

import time
from functools import partial
from typing import TYPE_CHECKING, cast

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.http.continuing.sealed_items import earlier_items
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.body_complexity import measure
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard, ResponseWriter
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.storage.sql.response_rows import StoredResponse
from strowger_gateway.gateway.surfaces.base import Renderer, Surface
from strowger_gateway.gateway.surfaces.stored_items import EarlierItemsNeeded
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import ChatRequest, Request, Storage

if TYPE_CHECKING:
    from strowger_gateway.gateway.surfaces.responses.render import ResponsesRenderer

_FIELD = "store"


async def continued(
    needed: EarlierItemsNeeded, request: RequestContext, gateway: Gateway, directly: int
) -> Request:
    """Return the request with the stored and sealed items that it needs.

    directly: bytes that are parsed directly in the event loop. Raises ResponseNotFound,
    StoreUnavailable, and InvalidRequest if the conversation is too long, or nothing is stored.
    """
    record, room = request.record, request.room
    assert room is not None
    with DisconnectGuard(request.exchange):
        earlier = await earlier_items(needed, gateway, record)
        size = len(earlier.items) + sum(len(bytes(item)) for item in earlier.found.values())
        size += sum(one.size for one in earlier.compacted.values() if one is not None)
        room.buffer(size)
        if size + needed.size <= directly:
            return needed.resume(earlier)
        record.large = True
        weigh = partial(measure, earlier.items, len(earlier.items))
        room.buffer((await room.run(weigh, record.holder, room.size)).size)
        return await room.run(partial(needed.resume, earlier), record.holder, room.size)


def is_kept(request: ChatRequest) -> bool:
    """Return whether the answer is to be stored, or its items to be sealed."""
    original = request.original
    if original is None:
        return False
    return original.refers or (original.storage is not None and original.storage.store)


async def kept_body(
    answer: Answer | PlainAnswer,
    request: RequestContext,
    sent: ChatRequest,
    surface: Surface,
    gateway: Gateway,
) -> bytes:
    """Store a whole answer for which `is_kept`, or seal its items. Return its body."""
    renderer = surface.renderer(sent, request.record.request_id)
    await seal_items(renderer, request, gateway)
    kept = storing(request, renderer, gateway)
    if kept is not None:
        return await kept.body(answer)
    if type(answer) is not PlainAnswer:
        return renderer.answer(answer)
    plainly = cast("ResponsesRenderer", renderer)  # only this surface's requests are kept
    return plainly.plain(answer)


def storing(
    request: RequestContext, renderer: Renderer, gateway: Gateway
) -> "AnswerStorage | None":
    """Return the storage of an answer that the client wants stored; `None` for any other."""
    sent = request.request
    if type(sent) is not ChatRequest or sent.original is None:
        return None
    storage = sent.original.storage
    if storage is None or not storage.store:
        return None
    # Late, because few gateways serve this surface: it is imported with its first request.
    from strowger_gateway.gateway.surfaces.responses.render import ResponsesRenderer

    if type(renderer) is not ResponsesRenderer:
        return None
    return AnswerStorage(storage, renderer, request.record, gateway)


async def seal_items(renderer: Renderer, request: RequestContext, gateway: Gateway) -> None:
    """Let the answer carry its items in sealed form if its client may refer to them."""
    sent = request.request
    original = sent.original if type(sent) is ChatRequest else None
    if original is None or not original.refers:
        return
    # Late, because few gateways serve this surface: it is imported with its first request.
    from strowger_gateway.gateway.surfaces.responses.carriers import Carriers
    from strowger_gateway.gateway.surfaces.responses.render import ResponsesRenderer

    seals = gateway.side(StoredResponsesSide).seals
    if type(renderer) is ResponsesRenderer and seals.on:
        await seals.ready()
        renderer.use_carriers(Carriers(partial(seals.seal, request.record.caller)))


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
        self._archive = gateway.side(StoredResponsesSide).archive

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
