"""The rows of the records: a request, what its attempts used, and what was thought of it."""

from collections.abc import Iterable
from typing import Literal, Protocol

from msgspec import Struct

from gateway.telemetry.access_log import AccessLine, Source

Role = Literal["served", "failed", "hedge", "mirror"]


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
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class FeedbackRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="feedback", gc=False):
    """What somebody thought of an answer; a later row of one request and metric replaces it.

    value: of a number; 0 and 1 of a boolean; `None` of a comment.
    """

    request_id: str
    time: float
    key: str
    metric: str
    value: float | None = None
    comment: str = ""
    boolean: bool = False


Row = RequestRow | AttemptRow | FeedbackRow


class AccessRow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="access", gc=False):
    """A request as its access line tells it, with what that leaves out: `RequestRow` says what.

    A worker leaves this for the request, and for its attempt where there was one only; whoever
    reads makes their rows of it (`booking.rows_told`). So most requests cost a worker no rows.
    """

    line: AccessLine
    epoch: int = 0
    unit: str = ""


Left = AccessRow | Row
"""What a worker leaves in its spool."""


class Recorder(Protocol):
    """Where a worker leaves its rows. Never waits."""

    @property
    def full(self) -> bool:
        """Whether rows are being lost; under `usage: required` requests are then refused."""
        ...

    def add(self, row: Left) -> None: ...

    def extend(self, rows: Iterable[Left]) -> None: ...
