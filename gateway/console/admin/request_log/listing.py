"""The requests that match, of all gateways from the store, and of this one as soon as they end.

A request is in the memory of its process at once, with the decisions about it, and a second or two
later in the store, which all gateways share.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.request_log import MAX_RECENT
from strowger_gateway.gateway.console.admin.request_log.parameters import text_of
from strowger_gateway.gateway.console.admin.request_log.sums import plus
from strowger_gateway.gateway.console.admin.request_log.views import (
    RequestView,
    of_store,
    viewed,
)
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.request_log.filters import (
    RequestFilter,
    matches,
    request_id_of,
)
from strowger_gateway.gateway.storage.sql.request_log.search import (
    ListPlace,
    RequestPage,
    RequestSearch,
    Totals,
)
from strowger_gateway.gateway.storage.sql.request_queries import RecordedRequest
from strowger_gateway.schemas.errors import Unavailable

REMEMBERED_S = 600.0
"""Older requests are in the store, so that the memory of the processes is not asked."""

NO_STORE = "there is no store (store.url), so this is what this gateway remembers"


class RequestList(Struct, frozen=True, kw_only=True):
    """Requests, the newest first.

    next:     `after` of the following page; "" at the end.
    searched: the page is not full because enough was read for one call, and there may be more: the
              search goes on at `next`.
    totals:   of all requests that match: those in the store, and those that this gateway remembers
              and has not stored yet; null unless asked for.
    incomplete: why the list has only what this gateway remembers; "" if it has everything.
    """

    requests: list[RequestView]
    next: str = ""
    searched: bool = False
    totals: Totals | None = None
    incomplete: str = ""


async def matching(
    gateway: Gateway,
    wanted: RequestFilter,
    limit: int,
    after: ListPlace | None = None,
    *,
    totals: bool = False,
) -> RequestList:
    """Return a page of the requests that match. Raises Unavailable.

    While the store is away, and without one, these are what this gateway remembers.
    """
    if gateway.store is None:
        known = [] if wanted.payload else await _remembered(gateway, wanted)
        return _of_memory(known, limit, after, NO_STORE, totals=totals)
    known = (
        [] if _is_stored(wanted, None if totals else after) else await _remembered(gateway, wanted)
    )
    remembered = [one for one in known if _is_after(one, after)]
    ids = [one.request_id for one in known] if totals else None
    try:
        page, sums, missing = await gateway.store.call(
            partial(_read, wanted=wanted, limit=limit, after=after, ids=ids)
        )
    except Unavailable as exc:
        if wanted.payload is not None:
            raise
        found = _of_memory(
            await _remembered(gateway, wanted), limit, after, exc.message, totals=totals
        )
        if after is not None and not found.requests:
            raise
        return found
    if sums is not None:
        sums = plus(sums, [one for one in known if one.request_id in missing])
    return replace(_joined(page, remembered, limit), totals=sums)


async def find(gateway: Gateway, request_id: str) -> RequestView | None:
    """Return a request by its id, its answer's or its client's; `None` if it is unknown.

    The gateway's id goes first, wherever it is, since any client can send it as its own. Of several
    with a client's id, it is the last. Raises Unavailable.
    """
    own_id = request_id_of(request_id)
    found = await _found(gateway, own_id)
    if request_id == own_id or (found is not None and found.request_id == own_id):
        return found
    return await _found(gateway, request_id)


async def _found(gateway: Gateway, request_id: str) -> RequestView | None:
    recent = [viewed(one) for one in await gateway.processes.recent(MAX_RECENT, request_id)]
    exact = next((one for one in recent if one.request_id == request_id), None)
    own = exact or next(iter(recent), None)
    if gateway.store is None or (exact is not None and exact.total_cost_usd is not None):
        return own
    try:
        stored = await gateway.store.call(partial(_find, request_id=request_id))
        if own is None or stored is None:
            return own or stored
        if exact is None and (stored.request_id == request_id or stored.time > own.time):
            return stored
        if stored.request_id != own.request_id:
            stored = await gateway.store.call(partial(_find, request_id=own.request_id))
    except Unavailable:
        if own is None:
            raise
        return own
    return own if stored is None else replace(own, total_cost_usd=stored.total_cost_usd)


def _is_stored(wanted: RequestFilter, after: ListPlace | None) -> bool:
    """Whether the store alone answers. Whether there is a payload is only known there."""
    oldest = time.time() - REMEMBERED_S
    ends = [one for one in (wanted.until, after and after.time) if one is not None]
    return wanted.payload is not None or any(one < oldest for one in ends)


async def _remembered(gateway: Gateway, wanted: RequestFilter) -> list[RequestView]:
    found = await gateway.processes.recent(MAX_RECENT)
    return [viewed(one) for one in found if _matches(wanted, one)]


def _is_after(one: RequestView, after: ListPlace | None) -> bool:
    return after is None or (one.time, one.request_id) < (after.time, after.request_id)


def _matches(wanted: RequestFilter, one: RecentRequest) -> bool:
    tried = [attempt.backend for attempt in one.line.attempts if attempt.role != "mirror"]
    return matches(wanted, one.line, tried)


def _of_memory(
    known: Sequence[RequestView],
    limit: int,
    after: ListPlace | None,
    why: str,
    *,
    totals: bool,
) -> RequestList:
    """Return a page of what this gateway remembers. why: the store does not answer."""
    following = [one for one in known if _is_after(one, after)]
    found = _newest(following, limit)
    return RequestList(
        requests=found,
        next=text_of(_place_of(found[-1])) if len(following) > limit else "",
        totals=plus(Totals(), known) if totals else None,
        incomplete=why,
    )


def _read(
    store: Store,
    wanted: RequestFilter,
    limit: int,
    after: ListPlace | None,
    ids: Sequence[str] | None,
) -> tuple[RequestPage, Totals | None, Collection[str]]:
    """Return a page, and unless ids is `None` the totals, and which of these are not in them."""
    search = RequestSearch(store.database)
    page = search.page(wanted, limit, after)
    if ids is None:
        return page, None, ()
    sums, missing = search.totals_and_missing(wanted, ids)
    return page, sums, missing


def _find(store: Store, request_id: str) -> RequestView | None:
    found = store.recorded_request(request_id)
    if found is None:
        page = RequestSearch(store.database).page(RequestFilter(id=request_id), 2)
        exact = [one for one in page.requests if one.client_request_id == request_id]
        found = exact[0] if exact else None
    return None if found is None else of_store(found)


def _joined(page: RequestPage, remembered: Sequence[RequestView], limit: int) -> RequestList:
    """Add what is remembered within the page's time; it may take the place of the oldest ones."""
    end = page.next
    stored = {one.request_id: one for one in page.requests}
    own = [
        _with_cost(one, stored)
        for one in remembered
        if end is None or (one.time, one.request_id) >= (end.time, end.request_id)
    ]
    ids = {one.request_id for one in own}
    others = [of_store(one) for one in page.requests if one.request_id not in ids]
    found = _newest([*own, *others], limit + 1)
    searched = page.searched
    if len(found) > limit:
        end, searched = _place_of(found[limit - 1]), False
    return RequestList(
        requests=found[:limit], next="" if end is None else text_of(end), searched=searched
    )


def _with_cost(own: RequestView, stored: Mapping[str, RecordedRequest]) -> RequestView:
    found = stored.get(own.request_id)
    if found is None or own.total_cost_usd is not None:
        return own
    return replace(own, total_cost_usd=found.total_cost_usd)


def _place_of(one: RequestView) -> ListPlace:
    return ListPlace(time=one.time, request_id=one.request_id)


def _newest(found: Sequence[RequestView], limit: int) -> list[RequestView]:
    return sorted(found, key=lambda one: (one.time, one.request_id), reverse=True)[:limit]
