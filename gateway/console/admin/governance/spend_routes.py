"""`/admin/view/spend`: spend over time in a browser."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromQuery, QueryParameter

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.governance.frame import shown
from strowger_gateway.gateway.console.admin.governance.spend import (
    PERIODS,
    Months,
    SpendBy,
    SpendPart,
    SpendPer,
    spend_section,
)
from strowger_gateway.gateway.console.admin.usage import read_usage
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.usage.periods import UsageRange, periods, usage_range
from strowger_gateway.gateway.governance.usage.report import (
    Read,
    UsageQuery,
    UsageReport,
    usage_report,
)
from strowger_gateway.gateway.platform.time_zones import zone_named
from strowger_gateway.gateway.storage.sql.spend_rows import SLOT_S
from strowger_gateway.schemas.errors import GatewayError

_Request = Request[object, object, State]


def spend_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get("/spend", role="viewer", include_in_schema=False)
    async def spend(
        request: _Request,
        by: FromQuery[SpendBy] = "team",
        per: FromQuery[SpendPer] = "day",
        time_zone: Annotated[str, QueryParameter(max_length=64)] = "UTC",
    ) -> Response[str]:
        gateway = current()
        part, status = SpendPart(by=by, per=per, time_zone=time_zone.strip() or "UTC"), 200
        try:
            part = await _read(gateway, part)
        except GatewayError as exc:
            part, status = msgspec.structs.replace(part, refused=exc.message), exc.status
        return await shown(gateway, request, "Spend", [spend_section(part)], status)

    return spend


async def _read(gateway: Gateway, part: SpendPart) -> SpendPart:
    """Raises InvalidRequest, Unavailable."""
    found = _range(part)
    rows, series, months = await read_usage(gateway, partial(_reports, part, found))
    return msgspec.structs.replace(
        part,
        rows=rows,
        series=series,
        months=months,
        parts=periods(found, part.per),
        budgets=gateway.side(KeysSide).rules.budgets(),
    )


def _reports(
    part: SpendPart, found: UsageRange, read: Read
) -> tuple[UsageReport, UsageReport, Months]:
    """The reports by value, and by period and value, from one reading; and two months. Blocks."""
    used = read([(one.begin, one.end) for one in periods(found, part.per)])
    at_once = [msgspec.structs.replace(one, period=0) for one in used]
    return (
        usage_report(UsageQuery(range=found, by=(part.by,)), lambda _: at_once),
        usage_report(UsageQuery(range=found, by=(part.per, part.by)), lambda _: used),
        _months(part.time_zone, read),
    )


def _months(time_zone: str, read: Read) -> Months:
    """This month so far, and the last one. Blocks."""
    now = time.time()
    this = usage_range(now, month="this", time_zone=time_zone)
    last = usage_range(now, month="last", time_zone=time_zone)
    by_now = min(last.begin + int((now - this.begin) // SLOT_S + 1) * SLOT_S, last.end)
    spent = [0, 0, 0]
    for one in read([(this.begin, this.end), (last.begin, by_now), (last.begin, last.end)]):
        spent[one.period] += one.counts.nanos
    return Months(this=spent[0], last_by_now=spent[1], last=spent[2])


def _range(part: SpendPart) -> UsageRange:
    """The last whole periods, and the current one."""
    now = time.time()
    usage_range(now, time_zone=part.time_zone)  # refuses an unknown time zone
    today, back = datetime.fromtimestamp(now, zone_named(part.time_zone)), PERIODS[part.per] - 1
    match part.per:
        case "day":
            first = today - timedelta(days=back)
        case "week":
            first = today - timedelta(days=today.weekday() + 7 * back)
        case "month":
            months = today.year * 12 + today.month - 1 - back
            first = today.replace(year=months // 12, month=months % 12 + 1, day=1)
    return usage_range(now, begin=first.date().isoformat(), time_zone=part.time_zone)
