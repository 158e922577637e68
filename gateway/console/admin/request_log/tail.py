"""`/admin/requests/tail`: requests of all gateways as they are recorded, as events.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from time import monotonic
from typing import Final

import msgspec
from litestar import Request, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.console.admin.parameters import TAKEN
from strowger_gateway.gateway.console.admin.part_calls import call_with_query, names_of
from strowger_gateway.gateway.console.admin.request_log.new_requests import (
    EVERY_S,
    NewRequestReader,
)
from strowger_gateway.gateway.console.admin.request_log.parameters import FilterParameters
from strowger_gateway.gateway.console.admin.request_log.routes import UNCACHED, allowed_filter
from strowger_gateway.gateway.console.admin.request_log.views import RequestView
from strowger_gateway.gateway.storage.sql.request_log.filters import RequestFilter, matches
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation_with
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable

_Request = Request[object, object, State]

MOST: Final = 50
"""Streams of one process at a time."""

QUIET_S: Final = 10.0
"""A comment after so much silence shows both sides that the other is there."""

LONGEST_S: Final = 900.0
"""Then the client connects again, and is asked again who it is."""

_encoder = msgspec.json.Encoder()


def tail_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    follower = _Followers(current)

    @get(
        "/requests/tail",
        role="viewer",
        security=[{SCHEME: []}],
        operation_class=operation_with(
            "Requests of all gateways that match, as server-sent events, when they are recorded",
            FilterParameters,
        ),
        opt={TAKEN: names_of(FilterParameters)},
    )
    async def tail(request: _Request) -> Stream:
        given = call_with_query(current(), request, FilterParameters).given
        wanted = allowed_filter(request, given)
        if wanted.payload is not None:
            raise InvalidRequest(
                "payload: is not known yet when a request ends; leave it out", param="payload"
            )
        events = await follower.events(wanted, request.headers.get("last-event-id", ""))
        return Stream(events, media_type="text/event-stream", headers=UNCACHED)

    return tail


class _Followers:
    """Those who follow the requests in one process."""

    def __init__(self, current: Callable[[], Gateway]) -> None:
        self._current = current
        self._reader: NewRequestReader | None = None
        self._open = 0

    async def events(self, wanted: RequestFilter, last_id: str) -> AsyncGenerator[bytes]:
        """Return the events from now on, or after those with an id. Raises Unavailable."""
        gateway = self._current()
        if gateway.store is None:
            raise Unavailable("following requests requires a store, and this gateway has none")
        reader = self._reader = self._reader or NewRequestReader(gateway.store)
        events = self._followed(
            gateway, reader, wanted, int(last_id) if _is_number(last_id) else None
        )
        return _after(await anext(events), events)

    async def _followed(
        self,
        gateway: Gateway,
        reader: NewRequestReader,
        wanted: RequestFilter,
        resumed: int | None,
    ) -> AsyncGenerator[bytes]:
        """Nothing is kept for a slow client: what it has missed is an event of its own.

        resumed: the import after which it goes on. Raises Unavailable before the first event.
        """
        if self._open >= MOST:
            raise Unavailable(f"{MOST} clients follow requests, the most of one process")
        runtime, ends = gateway.runtime, monotonic() + LONGEST_S
        self._open += 1
        try:
            batch = await reader.start(resumed)
            yield _event("begin", batch, batch)
            said = monotonic()
            while not _is_over(gateway) and gateway.runtime is runtime and monotonic() < ends:
                try:
                    found, lost = await reader.after(batch)
                except Unavailable as exc:
                    yield _event("away", batch, exc.message)
                    return
                data = [_event("lost", batch)] if lost else []
                for one in found:
                    data += [
                        _event("request", batch, request)
                        for request in one.requests
                        if _matches(wanted, request)
                    ]
                    batch = one.batch
                    data += [_id(batch)]
                if data and (len(data) > len(found) or monotonic() - said > QUIET_S):
                    said = monotonic()
                    yield b"".join(data)
                elif monotonic() - said > QUIET_S:
                    said = monotonic()
                    yield b": \n\n"
                await asyncio.sleep(EVERY_S)
            yield _event("end", batch, batch)
        finally:
            self._open -= 1


async def _after(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield what was taken from a generator, and go on with it."""
    async with aclosing(rest):
        yield first
        async for more in rest:
            yield more


def _is_over(gateway: Gateway) -> bool:
    return gateway.admission.draining or gateway.admission.refusing


def _matches(wanted: RequestFilter, request: RequestView) -> bool:
    return matches(wanted, request, [attempt.backend for attempt in request.attempts])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _id(batch: int) -> bytes:
    """An event without data is not dispatched, but browsers keep its id."""
    return b"id: %d\n\n" % batch


def _event(name: str, batch: int, data: object = None) -> bytes:
    """Until an import is complete, the id is that of the one before it."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), batch, _encoder.encode(data))
