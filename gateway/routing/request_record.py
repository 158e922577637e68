"""The record of one request and of its attempts: filled in while the request runs.

The response headers, the access log, the metrics and the store are written from it.
"""

import random
import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.backends.upstream.drawn_tokens import DrawnTokens
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.gateway.platform.trace_context import RequestTrace
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION, Participation
from strowger_gateway.gateway.storage.sql.rows import Attribute
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder

_UUID_BITS = 0x7 << 76 | 0b10 << 62
"""The version and the variant of a UUIDv7."""
_RANDOM_BITS = 0xFFF << 64 | (1 << 62) - 1
_random = random.Random(random.SystemRandom().getrandbits(128))

_LOGGABLE = re.compile(rb"[\x21-\x7e]{1,128}")

MAX_CAPTURED: Final = 1024 * 1024
"""Bytes of one body; a larger one is not kept, because redaction has to read it as a whole."""


def new_request_id() -> str:
    """Return a UUIDv7, so that request ids sort by time.

    48 bits of Unix milliseconds, version, 12 random bits, variant, 62 random bits.
    https://www.rfc-editor.org/rfc/rfc9562#section-5.7
    """
    number = time.time_ns() // 1_000_000 << 80 | _UUID_BITS | _random.getrandbits(76) & _RANDOM_BITS
    digits = number.to_bytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def loggable_id(sent: bytes) -> str:
    """Return a client's x-request-id if it may be logged: 1 to 128 visible ASCII characters."""
    return sent.decode("ascii") if _LOGGABLE.fullmatch(sent) is not None else ""


def milliseconds(seconds: float) -> float:
    """Milliseconds to the microsecond, in a sixth of the time of `round`. seconds: at least 0."""
    return (seconds * 1e6 + 0.5) // 1.0 / 1e3


class AttemptRecord(Struct, kw_only=True, omit_defaults=True, gc=False):
    """What is kept of one attempt: one backend, asked once.

    outcome: `ok`, `cancelled`, `lost` to a faster attempt, or the error's code; "" while it runs.
    ms:      its duration in milliseconds.
    hedge:   it started in parallel to an attempt that was late.
    pattern: the backend as configured, if that is a wildcard.
    replica: HOST:PORT of the replica that was asked; "" if the backend has none.
    provider_key: the name of the key that it was sent with last, if the provider has several.
    continued: it broke off after content, and the next attempt continued its text.
    refused: nothing was sent, because the backend's API cannot express the request.
    late:    deltas after its usage had arrived: Anthropic sends a first one with the beginning.
    role:    "" for an attempt whose answer is the request's: it served, or failed. hedge: of two
             parallel attempts the one that did not serve, whichever started first.
    unread, share: as in Sending, which this is. At its end also true if the backend refused the
             request, or failed it with an error's status, for which vendors do not charge.
    deltas, usage, service_tier: as in RequestRecord, of an attempt whose answer is not the
             request's: it failed before the client received anything, lost against a hedge, or was
             a mirror's.
    """

    backend: str
    pattern: str = ""
    outcome: str = ""
    ms: float = 0.0
    refused: bool = False
    unread: bool = False
    share: float = 1.0
    waiting: bool = False
    waited_s: float = 0.0
    continued: bool = False
    hedge: bool = False
    role: Literal["", "hedge", "mirror"] = ""
    deltas: int = 0
    usage: Usage | None = None
    late: int = 0
    replica: str = ""
    service_tier: str = ""
    provider_key: str = ""

    @property
    def recorded_role(self) -> Literal["served", "failed", "hedge", "mirror"]:
        """The role in stored records and metrics. An attempt that the client cancelled served."""
        if self.role:
            return self.role
        return "served" if self.outcome in ("ok", "cancelled") else "failed"


def counts_of(usage: Usage | None) -> Usage | None:
    """The usage without the vendor's own object, because it is read back from logs and records."""
    return usage if usage is None or usage.raw is None else replace(usage, raw=None)


class CacheUse(Struct, frozen=True, gc=False):
    """What the cache had for a request. Created by position.

    usage: of a hit, as the backend counted it when it made the answer; nothing was used now.
    """

    outcome: Literal["hit", "miss", "bypass"]
    usage: Usage | None


class CaptureBudget:
    """Memory for captured bodies, of requests in flight and of those that wait to be written."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> bool:
        """Take bytes if there is room."""
        if self.held + size > self.limit:
            return False
        self.held += size
        return True


class CapturedPayload(Struct, kw_only=True, gc=False):
    """request: `None` if it is too large. parts: of the answer; streamed: they are frames.

    too_large: the answer is. withheld: guardrails may mask parts of the request, so that it is not
    written. Only the event loop's thread may call the methods.
    """

    budget: CaptureBudget
    request: bytes | None
    request_bytes: int
    answer_bytes: int = 0
    held: int
    parts: list[bytes]
    streamed: bool = False
    too_large: bool = False
    withheld: bool = False

    def add(self, data: bytes, *, streamed: bool) -> None:
        """Keep a piece of the answer."""
        size = len(data)
        self.streamed = streamed
        self.answer_bytes += size
        if self.too_large:
            return
        if self.answer_bytes > MAX_CAPTURED or not self.budget.take(size):
            self.too_large = True
            self.parts.clear()
            return
        self.held += size
        self.parts.append(data)

    def release(self) -> None:
        """Give the memory back; the bodies may not be used any more."""
        self.budget.held -= self.held
        self.held = 0


class RequestRecord(Struct, kw_only=True, gc=False):
    """The mutable record of one request. Times are seconds of the clock, `None` until known.

    large:   the body is large, so that slow work on it runs in a thread.
    participation: in the experiment of its model.
    uncounted: attempts that were sent and do not count towards `retry.attempts`.
    deltas:  content events sent so far (for tokens, their ids): the estimate if no usage arrives.
    deltas, usage, first_content_at: of the last attempt with the role "". `charge_failed_attempt`
             moves them into that attempt's record before another one starts.
    usage_at: deltas when the usage arrived.
    error, param, message: of the failure that the client received; "" without one.
    service_tier: in which the answer was served, "" for the vendor's standard one: what the answer
             says, or else what its backend was asked for. requested_tier: as the client named it.
    upstream_since: when the attempts began that are running, or that ended last: parallel attempts
             count once. upstream_s: seconds of all attempts that ended before.
    estimated_prompt_tokens: our own estimate if no usage arrived; `None` if none is needed.
    searches: search units of the request, as its answer counts them, or estimated; 0 for chats.
    rule, candidates, ruled_out: as in the plan; candidates by name.
    refusal: the gateway's own error message if no backend was asked.
    certificate: of the client, its subject. team, user, plan, tags: of the
             caller.
    holder, level: of the caller and of the request, as what is scarce is shared out.
    room:    for a large answer; `None`: unlimited.
    trace:   `None` if requests are not traced. payload: `None` if it is not logged.
    findings: of guardrails, as GUARDRAIL/RULE:ACTION, without content.
    cache:   `None` if neither side asked for an answer from the cache.
    drawn:   of the current attempt; `None` unless its stream can be continued.
    end_user: of the client, as its account is named; "" unless a limit or a budget needs it.
    spender: the same, "" unless a budget needs it.
    client_headers: names in lower case; () unless a backend has a `pool`.
    budget:  the one that was used up, if it refused the request or sent it to a cheaper model.
    attributes: that parts record; `None` without any. Set them with `Column.set`.
    client_address: which the request came from. fields: its headers, names in lower case.
    metadata: of its body, a small JSON object; b"" without one.
    client, request_tags: as recorded; they are known once the request has ended.
    """

    request_id: str
    started: float
    surface: str = ""
    task: str = ""
    model: str = ""
    large: bool = False
    route: str = ""
    caller: str = ""
    holder: Holder = ANONYMOUS
    level: int = LEVEL
    room: Room | None = None
    team: str = ""
    user: str = ""
    end_user: str = ""
    spender: str = ""
    plan: str = ""
    tags: tuple[str, ...] = ()
    budget: str = ""
    stream: bool = False
    backend: str = ""
    participation: Participation = NO_PARTICIPATION
    dropped: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    repaired_body: tuple[str, ...] = ()
    attempts: list[AttemptRecord]
    uncounted: int = 0
    client_request_id: str = ""
    client_address: str = ""
    certificate: str = ""
    error: str = ""
    param: str = ""
    message: str = ""
    first_content_at: float | None = None
    upstream_since: float = 0.0
    upstream_s: float = 0.0
    deltas: int = 0
    usage: Usage | None = None
    usage_at: int = 0
    service_tier: str = ""
    requested_tier: str = ""
    estimated_prompt_tokens: int | None = None
    searches: float = 0
    rule: int | None = None
    candidates: tuple[str, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()
    refusal: str = ""
    trace: RequestTrace | None = None
    findings: Collection[str] = ()
    drawn: DrawnTokens | None = None
    client_headers: Iterable[tuple[bytes, bytes]] = ()
    payload: CapturedPayload | None = None
    cache: CacheUse | None = None
    attributes: dict[str, Attribute] | None = None
    fields: Mapping[bytes, bytes] = {}
    metadata: bytes = b""
    client: str = ""
    request_tags: tuple[str, ...] = ()

    @property
    def attempt_running(self) -> bool:
        """Whether an attempt is running."""
        return any(not attempt.outcome for attempt in self.attempts)

    @property
    def attempts_sent(self) -> int:
        """The number of attempts in which something was sent."""
        if len(self.attempts) == 1:
            return int(not self.attempts[0].refused)
        return sum(not attempt.refused for attempt in self.attempts)

    def set_attribute(self, name: str, value: Attribute) -> None:
        """Record a value under the name of a part's column; a later one replaces it."""
        if self.attributes is None:
            self.attributes = {}
        self.attributes[name] = value

    def record_error(self, error: GatewayError) -> None:
        """Record the error that the client receives."""
        self.error, self.param, self.message = error.code, error.param or "", error.logged

    def charge_failed_attempt(self) -> None:
        """Move deltas and usage to the failed attempt: not for the client, but they cost."""
        for attempt in reversed(self.attempts):
            if not attempt.role:
                attempt.deltas, attempt.usage = self.deltas, counts_of(self.usage)
                attempt.late = self.deltas - self.usage_at
                attempt.service_tier = self.service_tier
                break
        self.deltas, self.usage, self.first_content_at = 0, None, None
        self.usage_at = 0

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was changed in the request, its body's bytes first, as `PATH:RULE`."""
        if self.repaired or self.repaired_body:
            return (*self.repaired_body, *self.repaired)
        return ()

    @property
    def hedged(self) -> tuple[str, ...]:
        """The two backends of parallel attempts, the hedge's last; () without a hedge."""
        for index, attempt in enumerate(self.attempts):
            if attempt.hedge:
                return self.attempts[index - 1].backend, attempt.backend
        return ()

    def upstream_ms(self, now: float) -> float:
        """Milliseconds during which an attempt was running, without the pauses between retries."""
        if len(self.attempts) == 1 and self.attempts[0].outcome:
            return self.attempts[0].ms
        running = now - self.upstream_since if self.attempt_running else 0.0
        return (self.upstream_s + running) * 1e3

    def on_attempt_end(self, at: float) -> None:
        """An attempt has ended, and its outcome is set: if it was the last one running, add up.

        Not called for a single attempt that succeeds, because its own `ms` is the same.
        """
        if not self.attempt_running:
            self.upstream_s += at - self.upstream_since
