"""The time range of a report of usage, and its hours, days, weeks or months in a time zone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.governance.budgets.calendar import period_of
from strowger_gateway.gateway.platform.time_zones import zone_named
from strowger_gateway.gateway.storage.sql.spend_rows import SLOT_S
from strowger_gateway.schemas.errors import InvalidRequest

Span = Literal["hour", "day", "week", "month"]
MAX_PERIODS: Final = 2000
"""Of one report."""

_MONTH: Final = re.compile(r"([0-9]{4})-([0-9]{2})")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_QUARTERS: Final = "usage is kept by the quarter of an hour; give a time at :00, :15, :30 or :45"


class UsagePeriod(Struct, frozen=True):
    """label: `2026-11` and the like; "" for the whole range. begin, end: Unix seconds."""

    label: str
    begin: int
    end: int


class UsageRange(Struct, frozen=True, kw_only=True):
    """From `begin` until before `end`, Unix seconds. time_zone: an IANA name."""

    begin: int
    end: int
    time_zone: str = "UTC"

    @property
    def zone(self) -> tzinfo:
        return zone_named(self.time_zone)


def usage_range(
    now: float,
    *,
    days: int | None = None,
    month: str = "",
    begin: str = "",
    end: str = "",
    time_zone: str = "UTC",
) -> UsageRange:
    """Return the range that is asked for; without any word, the last 30 days and today.

    now: Unix seconds. days: up to today, with today. month: `2026-11`, `this` or `last`.
    begin, end: dates, or times with a time zone; the end is not part of the range.

    Raises InvalidRequest, with the field's name in the API as `param`.
    """
    zone = _zone(time_zone)
    given = [name for name, one in (("days", days), ("month", month), ("from", begin)) if one]
    if len(given) > 1:
        raise InvalidRequest(f"{given[1]}: give either {given[0]} or {given[1]}", param=given[1])
    if end and not begin:
        raise InvalidRequest("to: needs from", param="to")
    today = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    until = int(now // SLOT_S + 1) * SLOT_S
    if month:
        since, until = _month(month, today)
    elif begin:
        since = _instant("from", begin, zone)
        until = _instant("to", end, zone) if end else until
    else:
        since = _slot(today - timedelta(days=(days or 30) - 1))
    if until <= since:
        name = "to" if end else "from"
        raise InvalidRequest(f"{name}: the range is empty: it ends before it begins", param=name)
    return UsageRange(begin=since, end=until, time_zone=time_zone)


def periods(found: UsageRange, span: Span | None) -> list[UsagePeriod]:
    """Split a range; its first and last period may be parts. Raises InvalidRequest if too long."""
    if span is None:
        return [UsagePeriod("", found.begin, found.end)]
    parts: list[UsagePeriod] = []
    for begin, end in _bounds(found, span):
        label = _label(datetime.fromtimestamp(begin, found.zone), span)
        parts.append(UsagePeriod(label, max(begin, found.begin), min(end, found.end)))
        if len(parts) > MAX_PERIODS:
            raise InvalidRequest(
                f"by: more than {MAX_PERIODS} periods of one {span}; give a shorter range, or "
                "longer periods",
                param="by",
            )
    return parts


def _bounds(found: UsageRange, span: Span) -> Iterator[tuple[int, int]]:
    at = found.begin
    while at < found.end:
        begin, end = _hour(at, found.zone) if span == "hour" else _calendar(at, found, span)
        yield begin, end
        at = end


def _calendar(at: int, found: UsageRange, span: Literal["day", "week", "month"]) -> tuple[int, int]:
    period = period_of(span, found.time_zone, at)
    return period.begin, period.end


def _hour(at: int, zone: tzinfo) -> tuple[int, int]:
    """The hour of the local clock; a change of the clock by half an hour ends one early."""
    local = datetime.fromtimestamp(at, zone)
    into = local.minute * 60 + local.second
    return at - into, at - into + 3600


def _label(begin: datetime, span: Span) -> str:
    match span:
        case "hour":
            return begin.isoformat(timespec="minutes")
        case "day":
            return begin.date().isoformat()
        case "week":
            year, week, _ = begin.isocalendar()
            return f"{year}-W{week:02}"
        case "month":
            return f"{begin:%Y-%m}"


def _zone(name: str) -> tzinfo:
    try:
        return zone_named(name)
    except (LookupError, ValueError, OSError):
        raise InvalidRequest(
            f"time_zone: unknown time zone {name[:64]!r}; give one such as Europe/Berlin",
            param="time_zone",
        ) from None


def _month(month: str, today: datetime) -> tuple[int, int]:
    first = today.replace(day=1)
    if month == "last":
        first = (first - timedelta(days=1)).replace(day=1)
    elif month != "this":
        found = _MONTH.fullmatch(month)
        year, number = (0, 0) if found is None else (int(found[1]), int(found[2]))
        if not (1970 <= year < 9999 and 1 <= number <= 12):
            message = "month: expected a month such as 2026-11, or `this` or `last`"
            raise InvalidRequest(message, param="month")
        first = first.replace(year=year, month=number)
    return _slot(first), _slot((first + timedelta(days=32)).replace(day=1))


def _instant(name: str, text: str, zone: tzinfo) -> int:
    """Unix seconds of a date, or of a time with a time zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is not None and not 1970 <= at.year < 9999:
        raise InvalidRequest(f"{name}: expected a year from 1970 to 9998", param=name)
    if at is not None and _DAY.fullmatch(text):
        return _slot(at.replace(tzinfo=zone))
    if at is None or at.tzinfo is None:
        raise InvalidRequest(
            f"{name}: expected a date such as 2026-11-01, or a time with a time zone such as "
            "2026-11-01T08:00+01:00",
            param=name,
        )
    seconds = at.astimezone(UTC).timestamp()
    if seconds % SLOT_S:
        raise InvalidRequest(f"{name}: {_QUARTERS}", param=name)
    return int(seconds)


def _slot(local: datetime) -> int:
    """Unix seconds of a local midnight; one that a clock change skips is the change."""
    return int(local.replace(fold=0).timestamp() // SLOT_S) * SLOT_S
