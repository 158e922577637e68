"""The requests that match, of all gateways from the store, and of this one as soon as they end.

A request is in the memory of its process at once, with the decisions about it, and a second or two
later in the store, which all gateways share.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.request_log import MAX_RECENT
from strowger_gateway.gateway.console.admin.request_log.parameters import text_of
from strowger_gateway.gateway.console.admin.request_log.views import (
    RequestView,
    of_store,
    viewed,
)
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.request_log.filters import RequestFilter, matches
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
    totals:   of all requests in the store that match; null unless asked for.
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

    The first page has what this gateway remembers while the store is away; later ones need it.
    """
    remembered = await _remembered(gateway, wanted, after)
    if gateway.store is None:
        if after is not None:
            raise Unavailable("older requests require a store, and this gateway has none")
        return RequestList(requests=_newest(remembered, limit), incomplete=NO_STORE)
    try:
        page, sums = await gateway.store.call(
            partial(_read, wanted=wanted, limit=limit, after=after, totals=totals)
        )
    except Unavailable as exc:
        if after is not None or wanted.payload is not None:
            raise
        return RequestList(requests=_newest(remembered, limit), incomplete=exc.message)
    return replace(_joined(page, remembered, limit), totals=sums)


async def find(gateway: Gateway, request_id: str) -> RequestView | None:
    """Return a request by its id or its client's; `None` if it is unknown. Raises Unavailable."""
    recent = await gateway.processes.recent(1, request_id)
    own = viewed(recent[0]) if recent else None
    if gateway.store is None or (own is not None and own.total_cost_usd is not None):
        return own
    try:
        stored = await gateway.store.call(
            partial(_find, request_id=own.request_id if own else request_id)
        )
    except Unavailable:
        if own is None:
            raise
        return own
    if own is None:
        return stored
    return own if stored is None else replace(own, total_cost_usd=stored.total_cost_usd)


async def _remembered(
    gateway: Gateway, wanted: RequestFilter, after: ListPlace | None
) -> list[RequestView]:
    """Whether there is a payload is only known in the store."""
    oldest = time.time() - REMEMBERED_S
    too_old = [one for one in (wanted.until, after and after.time) if one is not None]
    if wanted.payload is not None or any(one < oldest for one in too_old):
        return []
    return [
        viewed(one)
        for one in await gateway.processes.recent(MAX_RECENT)
        if _is_after(one, after) and _matches(wanted, one)
    ]


def _is_after(one: RecentRequest, after: ListPlace | None) -> bool:
    line = one.line
    return after is None or (line.time, line.request_id) < (after.time, after.request_id)


def _matches(wanted: RequestFilter, one: RecentRequest) -> bool:
    tried = [attempt.backend for attempt in one.line.attempts if attempt.role != "mirror"]
    return matches(wanted, one.line, tried)


def _read(
    store: Store, wanted: RequestFilter, limit: int, after: ListPlace | None, *, totals: bool
) -> tuple[RequestPage, Totals | None]:
    search = RequestSearch(store.database)
    page = search.page(wanted, limit, after)
    return page, search.totals(wanted) if totals else None


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
        last = found[limit - 1]
        end, searched = ListPlace(time=last.time, request_id=last.request_id), False
    return RequestList(
        requests=found[:limit], next="" if end is None else text_of(end), searched=searched
    )


def _with_cost(own: RequestView, stored: Mapping[str, RecordedRequest]) -> RequestView:
    found = stored.get(own.request_id)
    if found is None or own.total_cost_usd is not None:
        return own
    return replace(own, total_cost_usd=found.total_cost_usd)


def _newest(found: Sequence[RequestView], limit: int) -> list[RequestView]:
    return sorted(found, key=lambda one: (one.time, one.request_id), reverse=True)[:limit]
