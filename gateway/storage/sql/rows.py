"""The recorded rows, and their columns: requests, usage of attempts, feedback, audit events."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, Protocol

from msgspec import Struct
from msgspec.inspect import (
    BoolType,
    DictType,
    FloatType,
    IntType,
    LiteralType,
    NoneType,
    StrType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)
from msgspec.structs import fields

from strowger_gateway.gateway.audit.event import AuditEvent

Role = Literal["served", "failed", "hedge", "mirror"]

Source = Literal["", "reported", "counted", "estimated"]
"""The origin of token counts; "": there are none."""


CacheOutcome = Literal["", "hit", "miss", "bypass"]

Attribute = str | int | float | bool
"""A value that a part records of a request."""


class RecordedFields(Struct, frozen=True, omit_defaults=True, gc=False):
    """What is recorded of one request, however it ended: the table of columns.

    The line of the access log, the row in the spool, the columns of the database and of its export,
    and the request in the API inherit or derive their fields from these. So a new field is one
    here, its value in `rows_from_request.access_line` (by position: new ones come last), and what
    that reads it from, in RequestRecord.

    Times in milliseconds; `time` is its end, in Unix seconds.

    status:     499 if the client disconnected. error: the error code, also of a broken stream.
    experiment: the request counts for its `variant`; without a variant it was excluded.
    fallback:   a backend other than its variant's answered, or was the last to fail.
    team, user, tags: of the key. budget: the one that was used up, if it refused the request or
                sent it to a cheaper model.
    end_user:   whom the client named, as a hash, if a budget holds end users apart.
    cache:      a hit was answered without a backend: its tokens are those of the answer when it was
                made, and its cost is 0. After a miss or a bypass a backend answered. Empty: neither
                side asked for an answer from the cache.
    attributes: what parts record, by the names of their columns (`gateway/parts/columns.py`); a
                JSON object in the database and its export; `None` without any.
    client:     the client program, without its version, as its User-Agent names it; "": unknown.
    request_tags: that the caller sent, sorted; a JSON array in the database and its export.
    client_request_id: the client's x-request-id, if it may be logged.
    param, message: the field that the error names, and its sentence, of at most 500 characters.
                Like the code, they repeat nothing of the request's content, except what the
                sentence quotes.
    """

    time: float
    request_id: str
    surface: str
    status: int
    ms: float
    key: str = ""
    team: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    end_user: str = ""
    task: str = ""
    model: str = ""
    route: str = ""
    backend: str = ""
    experiment: str = ""
    variant: str = ""
    fallback: bool = False
    stream: bool = False
    error: str = ""
    ttft_ms: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    budget: str = ""
    cache: CacheOutcome = ""
    attributes: Mapping[str, Attribute] | None = None
    client: str = ""
    request_tags: tuple[str, ...] = ()
    client_request_id: str = ""
    param: str = ""
    message: str = ""


class RowAttempt(Struct, frozen=True, omit_defaults=True, gc=False):
    """What the sums of traffic need of an attempt, as in AttemptRecord. Created by position."""

    backend: str
    pattern: str = ""
    outcome: str = ""
    refused: bool = False
    role: str = ""


class RequestRow(
    RecordedFields, frozen=True, kw_only=True, omit_defaults=True, tag="request", gc=False
):
    """One request as it is stored.

    epoch, unit: of its experiment; the unit is a hash that does not identify it.
    writer, batch: the process that recorded it, and the number of its batch; "" for neither.
    attempted: its attempts in order, also those that sent nothing; for sums of traffic.
    total_cost_usd: of all its attempts, also those that the client saw nothing of; `None` if no
                    price is known.
    """

    epoch: int = 0
    unit: str = ""
    writer: str = ""
    batch: int = 0
    attempted: tuple[RowAttempt, ...] = ()
    total_cost_usd: float | None = None


class AttemptRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="attempt", gc=False):
    """One attempt at one backend: its usage and cost, whether or not the client saw the answer.

    number: within the request, from 1. outcome: `ok`, `cancelled` or an error code.
    usage_source: the origin of the token counts; "": unknown, and the counts are None.
    provider_key: the name of the key that it was sent with, if the provider has several.
    key … end_user: only in a mirror's row, which comes apart from its request's.
    """

    request_id: str
    number: int
    time: float
    backend: str
    role: Role
    outcome: str
    ms: float
    usage_source: Source = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    provider_key: str = ""
    key: str = ""
    team: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    route: str = ""
    client: str = ""
    request_tags: tuple[str, ...] = ()
    end_user: str = ""


class FeedbackRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="feedback", gc=False):
    """Feedback on an answer; a later row for the same request and metric replaces it.

    value: a number; 0 or 1 for a boolean; `None` for a comment.
    given: the number that was sent, if it is above its contract's cap and counts as the cap.
    """

    request_id: str
    time: float
    key: str
    metric: str
    value: float | None = None
    given: float | None = None
    comment: str = ""
    boolean: bool = False


Kind = Literal["text", "int", "float", "bool", "json"]


class TableColumn(Struct, frozen=True, kw_only=True):
    """A column of a table. optional: it may be NULL."""

    name: str
    kind: Kind
    optional: bool


def columns_of(row: type[Struct], *, without: Collection[str]) -> tuple[TableColumn, ...]:
    """Return the columns for the fields of a row, except some, in order.

    Raises TypeError for a field that no column can have.
    """
    return tuple(
        _column(field.name, type_info(field.type))
        for field in fields(row)
        if field.name not in without
    )


def _column(name: str, found: Type) -> TableColumn:
    types = found.types if isinstance(found, UnionType) else (found,)
    kinds: set[Kind] = {_kind(name, one) for one in types if not isinstance(one, NoneType)}
    (kind,) = kinds
    return TableColumn(
        name=name, kind=kind, optional=any(isinstance(one, NoneType) for one in types)
    )


def _kind(name: str, found: Type) -> Kind:
    match found:
        case StrType() | LiteralType():
            return "text"
        case BoolType():
            return "bool"
        case IntType():
            return "int"
        case FloatType():
            return "float"
        case DictType() | VarTupleType():
            return "json"
        case _:
            raise TypeError(f"{name}: a field of this type has no column")


REQUEST_COLUMNS: Final = columns_of(RequestRow, without={"writer", "batch", "attempted"})
"""Without whom the batch came from, and the attempts."""

_OF_REQUESTS: Final = frozenset(
    {"key", "team", "user", "tags", "route", "client", "request_tags", "end_user"}
)
ATTEMPT_COLUMNS: Final = columns_of(AttemptRow, without=_OF_REQUESTS)
"""Without what the row of the request has."""

Row = RequestRow | AttemptRow | FeedbackRow | AuditEvent


class RequestBatch(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="booked", gc=False):
    """Requests as their access lines, which are written anyway, and what those do not contain.

    A worker writes this for requests, and for the only attempt of most of them; the importer
    expands it to rows (`rows_from_request.expand_rows`). So most requests cost a worker no rows.

    lines:    JSON, one per line, `count` of them.
    parts:    epoch and unit of each, as in `RequestRow`; () if none is in an experiment.
    attempts: of the requests with several.
    writer, batch: of all of them, as in `RequestRow`.
    """

    count: int
    lines: bytes
    parts: tuple[tuple[int, str], ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    writer: str = ""
    batch: int = 0


SpoolEntry = RequestBatch | Row
"""An entry of a worker's spool."""


def size_of(entry: SpoolEntry) -> int:
    """Return the number of rows of an entry, without the attempts within lines."""
    return entry.count + len(entry.attempts) if isinstance(entry, RequestBatch) else 1


class Recorder(Protocol):
    """The worker's buffer for rows. Never blocks."""

    @property
    def full(self) -> bool:
        """True while rows are being lost; with `usage: required`, requests are then rejected."""
        ...

    def add(self, row: SpoolEntry) -> None: ...

    def extend(self, rows: Iterable[SpoolEntry]) -> None: ...
