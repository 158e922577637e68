"""`GET /admin/usage`: requests, tokens and cost by time, key, team, user, tag and model."""

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, TypeVar

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.governance.usage.csv_output import as_csv
from strowger_gateway.gateway.governance.usage.periods import usage_range
from strowger_gateway.gateway.governance.usage.report import (
    DEFAULT,
    DIMENSIONS,
    FILTERS,
    Read,
    UsageQuery,
    UsageReport,
    dimensions,
    usage_report,
)
from strowger_gateway.schemas.errors import Unavailable

_T = TypeVar("_T")
_UNCACHED = {"cache-control": "no-store"}
_Only = Annotated[str | None, QueryParameter(description="only this one")]


async def read_usage(gateway: Gateway, build: Callable[[Read], _T]) -> _T:
    """Build a report in a thread. Raises Unavailable, StoreUnavailable, and what `build` raises."""
    if gateway.store is None:
        raise Unavailable("usage is read from the store, and this gateway has none")
    return await gateway.store.call(lambda store: build(store.usage))


_REPORT = ResponseSpec(
    UsageReport,
    description="the report; CSV with `format=csv`",
    generate_examples=False,  # Litestar needs pydantic to make them
)


def usage_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/usage",
        summary="Requests, tokens and cost, as `strowger usage` shows them",
        role="viewer",
        security=[{SCHEME: []}],
        responses={200: _REPORT},
    )
    async def usage(
        by: Annotated[
            str, QueryParameter(description=f"up to one time and others: {', '.join(DIMENSIONS)}")
        ] = ",".join(DEFAULT),
        days: Annotated[
            int | None, QueryParameter(ge=1, le=10_000, description="days up to today; default 30")
        ] = None,
        month: Annotated[
            str, QueryParameter(description="a month such as 2026-11, or `this` or `last`")
        ] = "",
        begin: Annotated[
            str, QueryParameter(name="from", description="a date, or a time with a time zone")
        ] = "",
        end: Annotated[
            str,
            QueryParameter(name="to", description="the first date or time not included"),
        ] = "",
        time_zone: Annotated[str, QueryParameter(description="of days and months")] = "UTC",
        format: Annotated[Literal["json", "csv"], QueryParameter()] = "json",
        key: _Only = None,
        team: _Only = None,
        user: _Only = None,
        tag: _Only = None,
        model: _Only = None,
        backend: _Only = None,
        provider: _Only = None,
        role: _Only = None,
        client: _Only = None,
        request_tag: _Only = None,
        end_user: _Only = None,
    ) -> Response[bytes]:
        given = (key, team, user, tag, model, backend, provider, role, client, request_tag)
        only = dict(zip(FILTERS, (*given, end_user), strict=True))
        query = UsageQuery(
            range=usage_range(
                time.time(), days=days, month=month, begin=begin, end=end, time_zone=time_zone
            ),
            by=dimensions(by),
            only={name: value for name, value in only.items() if value is not None},
        )
        report = await read_usage(current(), partial(usage_report, query))
        if format == "csv":
            headers = {**_UNCACHED, "content-disposition": 'attachment; filename="usage.csv"'}
            return Response(as_csv(report).encode(), media_type="text/csv", headers=headers)
        return Response(
            msgspec.json.encode(report), media_type="application/json", headers=_UNCACHED
        )

    return usage
