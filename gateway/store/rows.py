"""The recorded rows: requests, the usage of their attempts, feedback, and audit events."""

from collections.abc import Iterable
from typing import Literal, Protocol

from msgspec import Struct

from gateway.audit.event import AuditEvent

Role = Literal["served", "failed", "hedge", "mirror"]

Source = Literal["", "reported", "counted", "estimated"]
"""The origin of token counts; "": there are none."""


class RequestRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="request", gc=False):
    """One request, however it ended. Times in milliseconds; `time` is its end, in Unix seconds.

    experiment: the one it is enrolled in, "" none; epoch, variant and unit belong to it.
    unit:       the assigned unit, as a hash that does not identify it.
    fallback:   the answering backend is not the variant's.
    status:     499 if the client disconnected. error: the error code, also of a broken stream.
    team, user, tags: of the key. budget: the one that was used up, so that `route` is a cheaper
                model.
    end_user:   whom the client named, if a budget holds end users apart; see gateway.end_users.
    cache:      hit: the cache answered, and the tokens are those of the answer when it was made.
                miss, bypass: a backend answered. "": no answer from the cache was wanted.
    writer, batch: the process that recorded it, and the number of its batch; "" for neither.
    """

    request_id: str
    time: float
    status: int
    ms: float
    key: str = ""
    surface: str = ""
    task: str = ""
    model: str = ""
    route: str = ""
    backend: str = ""
    stream: bool = False
    error: str = ""
    ttft_ms: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    experiment: str = ""
    epoch: int = 0
    variant: str = ""
    unit: str = ""
    fallback: bool = False
    team: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    budget: str = ""
    end_user: str = ""
    cache: Literal["", "hit", "miss", "bypass"] = ""
    writer: str = ""
    batch: int = 0


class AttemptRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="attempt", gc=False):
    """One attempt at one backend: its usage and cost, whether or not the client saw the answer.

    number: within the request, from 1. outcome: `ok`, `cancelled` or an error code.
    usage_source: the origin of the token counts; "": unknown, and the counts are None.
    key, team, user, tags, route: only in a mirror's row, which comes apart from its request's.
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
    key: str = ""
    team: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    route: str = ""


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
