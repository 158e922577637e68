"""`/admin/requests/export`: all requests that match, as CSV or as lines of JSON."""

import csv
import io
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from litestar import Request, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from msgspec import Meta

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.console.admin.parameters import TAKEN
from strowger_gateway.gateway.console.admin.part_calls import call_with_query, names_of
from strowger_gateway.gateway.console.admin.request_log.parameters import FilterParameters
from strowger_gateway.gateway.console.admin.request_log.routes import UNCACHED, allowed_filter
from strowger_gateway.gateway.console.admin.request_log.views import RequestView, of_store
from strowger_gateway.gateway.governance.usage.csv_output import harmless
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.request_log.filters import RequestFilter
from strowger_gateway.gateway.storage.sql.request_log.search import (
    ListPlace,
    RequestPage,
    RequestSearch,
)
from strowger_gateway.gateway.storage.sql.rows import RecordedFields
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation_with
from strowger_gateway.schemas.errors import Unavailable

_Request = Request[object, object, State]
Format = Literal["csv", "jsonl"]

PAGE: Final = 500
"""Requests that are in memory at a time."""

_KINDS: Final = {"csv": "text/csv", "jsonl": "application/jsonl"}
_FIELDS: Final = tuple(
    name
    for name in RecordedFields.__struct_fields__
    if name not in ("attributes", "tags", "request_tags")
)
_encoder = msgspec.json.Encoder()


class ExportParameters(FilterParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Annotated[Format, Meta(description="CSV with a line of names, or JSON per line")] = (
        "jsonl"
    )
    limit: (
        Annotated[int, Meta(ge=1, description="most requests, the newest; default: all")] | None
    ) = None


def export_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/requests/export",
        role="viewer",
        security=[{SCHEME: []}],
        operation_class=operation_with(
            "All requests in the store that match, the newest first, as a file", ExportParameters
        ),
        opt={TAKEN: names_of(ExportParameters)},
    )
    async def export(request: _Request) -> Stream:
        gateway = current()
        given = call_with_query(gateway, request, ExportParameters).given
        wanted = allowed_filter(request, given)
        if gateway.store is None:
            raise Unavailable("an export requires a store, and this gateway has none")
        # The first page comes before the status, so that a fault has a status of its own.
        first = await _page(gateway.store, wanted, None)
        rows = _pages(gateway.store, wanted, first, given.limit)
        name = f'attachment; filename="requests.{given.format}"'
        return Stream(
            _as_csv(rows) if given.format == "csv" else _as_lines(rows),
            media_type=_KINDS[given.format],
            headers={**UNCACHED, "content-disposition": name},
        )

    return export


async def _pages(
    store: StoreAccess, wanted: RequestFilter, page: RequestPage, limit: int | None
) -> AsyncGenerator[Sequence[RequestView]]:
    """Yield the requests of all pages. Raises StoreUnavailable, which breaks the answer off."""
    left = limit
    while True:
        rows = [of_store(one) for one in page.requests[:left]]
        if rows:
            yield rows
        left = None if left is None else left - len(rows)
        if page.next is None or left == 0:
            return
        page = await _page(store, wanted, page.next)


async def _page(store: StoreAccess, wanted: RequestFilter, after: ListPlace | None) -> RequestPage:
    return await store.call(partial(_read, wanted=wanted, after=after))


def _read(store: Store, wanted: RequestFilter, after: ListPlace | None) -> RequestPage:
    return RequestSearch(store.database).page(wanted, PAGE, after)


async def _as_lines(pages: AsyncGenerator[Sequence[RequestView]]) -> AsyncGenerator[bytes]:
    async for rows in pages:
        yield _encoder.encode_lines(rows)


async def _as_csv(pages: AsyncGenerator[Sequence[RequestView]]) -> AsyncGenerator[bytes]:
    yield _written([(*_FIELDS, "tags", "request_tags", "total_cost_usd", "attempts")])
    async for rows in pages:
        yield _written([_cells(one) for one in rows])


def _cells(one: RequestView) -> Sequence[object]:
    tried = " ".join(f"{attempt.backend}:{attempt.outcome}" for attempt in one.attempts)
    values = [getattr(one, name) for name in _FIELDS]
    values += [" ".join(one.tags), " ".join(one.request_tags), one.total_cost_usd, tried]
    return [_cell(value) for value in values]


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return harmless(value) if isinstance(value, str) else value


def _written(rows: Sequence[Sequence[object]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()
