"""The rows of the records: a request, what its attempts used, and what was thought of it."""

from collections.abc import Iterable
from typing import Literal, Protocol

from msgspec import Struct

Role = Literal["served", "failed", "hedge", "mirror"]

Source = Literal["", "reported", "counted", "estimated"]
"""Where token counts come from; "": there are none."""


class RequestRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="request", gc=False):
    """One request, however it ended. Times in milliseconds; `time` is its end, in Unix seconds.

    experiment: the one that it takes part in, "" none; epoch, variant and unit go with it.
    unit:       who was assigned, as a hash that does not tell who it is.
    fallback:   a backend answered that is not the variant's.
    status:     499 where the client hung up. error: the code of what went wrong, also in a stream.
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


class AttemptRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="attempt", gc=False):
    """One try at one backend: what it used and cost, whether or not the client saw it.

    number: within the request, from 1. outcome: `ok`, `cancelled` or an error's code.
    source: who says how many tokens there were; "": nobody, and the counts are None.
    """

    request_id: str
    number: int
    time: float
    backend: str
    role: Role
    outcome: str
    ms: float
    source: Source = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class FeedbackRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="feedback", gc=False):
    """What somebody thought of an answer; a later row of one request and metric replaces it.

    value: of a number; 0 and 1 of a boolean; `None` of a comment.
    given: the number that was sent, where it is more than its contract's cap and counts as that.
    """

    request_id: str
    time: float
    key: str
    metric: str
    value: float | None = None
    given: float | None = None
    comment: str = ""
    boolean: bool = False


Row = RequestRow | AttemptRow | FeedbackRow


class RequestBatch(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="booked", gc=False):
    """Requests as their access lines tell them, which are written anyway, and what those leave out.

    A worker leaves this for requests, and for the attempt of those that had one only; whoever
    reads makes their rows of it (`booking.expand_rows`). So most requests cost a worker no rows.

    lines: JSON, one after the other, as many as `count`.
    parts: epoch and unit of each, as in `RequestRow`; () where none is part of an experiment.
    attempts: of the requests that had several.
    """

    count: int
    lines: bytes
    parts: tuple[tuple[int, str], ...] = ()
    attempts: tuple[AttemptRow, ...] = ()


SpoolEntry = RequestBatch | Row
"""What a worker leaves in its spool."""


def size_of(left: SpoolEntry) -> int:
    """Of how many rows it is, attempts within lines not counted."""
    return left.count + len(left.attempts) if isinstance(left, RequestBatch) else 1


class Recorder(Protocol):
    """Where a worker leaves its rows. Never waits."""

    @property
    def full(self) -> bool:
        """Whether rows are being lost; under `usage: required` requests are then refused."""
        ...

    def add(self, row: SpoolEntry) -> None: ...

    def extend(self, rows: Iterable[SpoolEntry]) -> None: ...
