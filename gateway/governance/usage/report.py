"""A report of usage: rows by some dimensions, and a total that counts every request once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Final, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.governance.usage.periods import Span, UsagePeriod, UsageRange, periods
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS
from strowger_gateway.gateway.storage.sql.usage_rows import Usage, UsageCounts, UsagePayer
from strowger_gateway.schemas.errors import InvalidRequest

Dimension = Literal[
    "hour",
    "day",
    "week",
    "month",
    "key",
    "team",
    "user",
    "tag",
    "tags",
    "model",
    "backend",
    "provider",
    "role",
    "client",
    "request_tag",
    "request_tags",
    "end_user",
]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
SPANS: Final[tuple[Span, ...]] = get_args(Span)
DEFAULT: Final[tuple[Dimension, ...]] = ("day", "key", "model", "backend")
FILTERS: Final[tuple[Dimension, ...]] = (
    "key",
    "team",
    "user",
    "tag",
    "model",
    "backend",
    "provider",
    "role",
    "client",
    "request_tag",
    "end_user",
)
_MANY: Final[Mapping[Dimension, Literal["tags", "request_tags"]]] = {
    "tag": "tags",
    "request_tag": "request_tags",
}
"""Dimensions of which a request may have several values."""
_NOTHING: Final = UsageCounts()
Read = Callable[[Sequence[tuple[int, int]]], list[Usage]]


class UsageQuery(Struct, frozen=True, kw_only=True):
    """by: what rows are about. only: values that count, by dimension; () for all."""

    range: UsageRange
    by: tuple[Dimension, ...] = DEFAULT
    only: Mapping[Dimension, str] = {}


class Used(Struct, frozen=True, kw_only=True):
    """What was used.

    requests: answered. served_…: usage and cost of those answers. attempts: all, with failed ones,
    hedges and copies for mirrors; the fields after it are of all of them.
    …_nano_usd: exact, 10⁻⁹ US dollars. …_usd: the same as a decimal number.
    …unpriced: attempts with tokens and unknown cost. estimated_tokens: of prompts and answers whose
    backend reported none, as after a timeout.
    """

    requests: int
    served_prompt_tokens: int
    served_completion_tokens: int
    served_nano_usd: int
    served_usd: str
    served_unpriced: int
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost_nano_usd: int
    cost_usd: str
    unpriced: int
    estimated_tokens: int


class UsageRow(Used, frozen=True, kw_only=True):
    """One row; it has the fields that the report is `by`. tag: "" for requests without one.

    tags: all tags of the key. model: its own name, whichever alias was requested.
    request_tag, request_tags: as tag and tags, of what the caller sent. client: its program.
    end_user: a hash, where a budget holds end users apart.
    """

    hour: str | UnsetType = UNSET
    day: str | UnsetType = UNSET
    week: str | UnsetType = UNSET
    month: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    team: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    tag: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    backend: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    request_tag: str | UnsetType = UNSET
    request_tags: tuple[str, ...] | UnsetType = UNSET
    end_user: str | UnsetType = UNSET

    def text(self, dimension: Dimension) -> str:
        """The value of a dimension that the report is by, as one text."""
        value: str | tuple[str, ...] = getattr(self, dimension)
        return value if isinstance(value, str) else ", ".join(value)


class UsageReport(Struct, frozen=True, kw_only=True, rename={"begin": "from", "end": "to"}):
    """rows: in the order of `by`. total: of every request once.

    rows_overlap: a request with several tags is in several rows, which then add up to more than the
    total.
    """

    begin: datetime
    end: datetime
    time_zone: str
    by: tuple[Dimension, ...]
    rows_overlap: bool
    rows: list[UsageRow]
    total: Used


class _Sum:
    """What rows are made of: the counts of answers, and of all attempts."""

    __slots__ = ("everything", "served")

    def __init__(self) -> None:
        self.served = self.everything = _NOTHING

    def add(self, role: str, counts: UsageCounts) -> None:
        self.everything += counts
        if role == "served":
            self.served += counts

    def fields(self) -> dict[str, object]:
        served, everything = self.served, self.everything
        return {
            "requests": served.attempts,
            "served_prompt_tokens": served.prompt_tokens,
            "served_completion_tokens": served.completion_tokens,
            "served_nano_usd": served.nanos,
            "served_usd": usd(served.nanos),
            "served_unpriced": served.unpriced,
            "attempts": everything.attempts,
            "prompt_tokens": everything.prompt_tokens,
            "completion_tokens": everything.completion_tokens,
            "cached_tokens": everything.cached_tokens,
            "cache_write_tokens": everything.cache_write_tokens,
            "reasoning_tokens": everything.reasoning_tokens,
            "cost_nano_usd": everything.nanos,
            "cost_usd": usd(everything.nanos),
            "unpriced": everything.unpriced,
            "estimated_tokens": everything.estimated_tokens,
        }


def dimensions(text: str) -> tuple[Dimension, ...]:
    """Read a list such as `month,team`. Raises InvalidRequest."""
    found: list[Dimension] = []
    for name in filter(None, (one.strip() for one in text.split(","))):
        try:
            one = msgspec.convert(name, Dimension)
        except msgspec.ValidationError:
            hint = nearest(name, DIMENSIONS) or f"; expected some of {', '.join(DIMENSIONS)}"
            raise InvalidRequest(f"by: unknown {name[:64]!r}{hint}", param="by") from None
        if one not in found:
            found.append(one)
    if len([one for one in found if one in SPANS]) > 1:
        message = f"by: give at most one of {', '.join(SPANS)}"
        raise InvalidRequest(message, param="by")
    return tuple(found)


def usage_report(query: UsageQuery, read: Read) -> UsageReport:
    """Build a report. read: see SqlStore.usage. Raises InvalidRequest, StoreUnavailable."""
    spans: tuple[Span, ...] = tuple(one for one in SPANS if one in query.by)
    parts = periods(query.range, spans[0] if spans else None)
    total, sums = _Sum(), dict[tuple[str | tuple[str, ...], ...], _Sum]()
    for used in read([(part.begin, part.end) for part in parts]):
        if not all(_has(used.payer, *one) for one in query.only.items()):
            continue
        total.add(used.payer.role, used.counts)
        for place in _places(query, parts[used.period], used.payer):
            found = sums.get(place)
            if found is None:
                found = sums[place] = _Sum()
            found.add(used.payer.role, used.counts)
    rows = [
        msgspec.convert({**dict(zip(query.by, place, strict=True)), **found.fields()}, UsageRow)
        for place, found in sorted(sums.items())
    ]
    return UsageReport(
        begin=datetime.fromtimestamp(query.range.begin, UTC).astimezone(query.range.zone),
        end=datetime.fromtimestamp(query.range.end, UTC).astimezone(query.range.zone),
        time_zone=query.range.time_zone,
        by=query.by,
        rows_overlap=any(one in query.by and not query.only.get(one) for one in _MANY),
        rows=rows,
        total=msgspec.convert(total.fields(), Used),
    )


def usd(nanos: int) -> str:
    """US dollars as a decimal number, exactly: at least two decimals, at most nine."""
    whole, rest = divmod(abs(nanos), NANOS)
    decimals = f"{rest:09}".rstrip("0").ljust(2, "0")
    return f"{'-' if nanos < 0 else ''}{whole}.{decimals}"


def _places(
    query: UsageQuery, part: UsagePeriod, payer: UsagePayer
) -> Iterator[tuple[str | tuple[str, ...], ...]]:
    """The rows that a payer counts in: several only by its tags."""
    yield from product(*(_values(one, part, payer, query.only.get(one)) for one in query.by))


def _values(
    dimension: Dimension, part: UsagePeriod, payer: UsagePayer, only: str | None
) -> Sequence[str | tuple[str, ...]]:
    match dimension:
        case "hour" | "day" | "week" | "month":
            return (part.label,)
        case "tag" | "request_tag":
            return (only,) if only else getattr(payer, _MANY[dimension]) or ("",)
        case "tags" | "request_tags":
            return (getattr(payer, dimension),)
        case "model":
            return (payer.route,)
        case "provider":
            return (payer.backend.partition("/")[0],)
        case "key" | "team" | "user" | "backend" | "role" | "client" | "end_user":
            return (getattr(payer, dimension),)


def _has(payer: UsagePayer, dimension: Dimension, value: str) -> bool:
    if dimension in _MANY:
        return value in (getattr(payer, _MANY[dimension]) or ("",))
    if dimension == "provider":
        return payer.backend.partition("/")[0] == value
    return (payer.route if dimension == "model" else getattr(payer, dimension)) == value
