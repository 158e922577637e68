"""What happened to one request: filled in on the way, read once for headers, log and metrics."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gateway.routing.participation import NO_PARTICIPATION, Participation
from schemas.errors import GatewayError
from schemas.events import Usage


class AttemptRecord(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One try at one backend.

    outcome: `ok`, `cancelled`, `lost` to a faster one, or the error's code. ms: its length.
    hedge:   it was begun beside one that was late.
    pattern: the backend as configured, where that is a wildcard.
    refused: nothing was sent, for the request cannot be said in the backend's words.
    role:    "" is one whose answer the client would have seen: it served, or failed; hedge: of two
             at once the one that did not serve, whichever began first.
    deltas, usage: like the request's, of an attempt whose answer is not the request's: it failed
             before the client saw anything, lost against a hedge, or was a mirror's.
    """

    backend: str
    pattern: str = ""
    outcome: str = ""
    ms: float = 0.0
    refused: bool = False
    hedge: bool = False
    role: Literal["", "hedge", "mirror"] = ""
    deltas: int = 0
    usage: Usage | None = None

    @property
    def recorded_role(self) -> Literal["served", "failed", "hedge", "mirror"]:
        """The role in records and metrics; an attempt that a client cancelled served it."""
        if self.role:
            return self.role
        return "served" if self.outcome in ("ok", "cancelled") else "failed"


def counts_of(usage: Usage | None) -> Usage | None:
    """Without the vendor's own object: an attempt's usage is read back from logs and records."""
    return usage if usage is None or usage.raw is None else replace(usage, raw=None)


class RequestRecord(Struct, kw_only=True, gc=False):
    """The mutable record of one request. Times are loop times in seconds, `None` until known.

    deltas:  content events given out so far, of tokens their ids: the estimate when no usage
             arrives.
    deltas, usage, first_content: of the last attempt with the role ""; `set_aside` them before
             another.
    prompt:  its tokens by our own estimate, where no usage arrived; `None` where none is needed.
    part:    in its model's experiment.
    rule, candidates, ruled_out: as planned; candidates by name.
    refused: our own words where no backend was asked.
    error, param, message: what the client is told of a failure, "" without one.
    large:   its body is; what takes long with it is done in a thread.
    asking_since: when the first of the tries began that are under way, or were until the last
             ended; before that, some were for `upstream_s`.
    """

    request_id: str
    started: float
    surface: str = ""
    task: str = ""
    model: str = ""
    large: bool = False
    route: str = ""
    caller: str = ""
    stream: bool = False
    backend: str = ""
    participation: Participation = NO_PARTICIPATION
    dropped: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    attempts: list[AttemptRecord]
    client_request_id: str = ""
    client: str = ""
    error: str = ""
    param: str = ""
    message: str = ""
    first_content_at: float | None = None
    upstream_since: float = 0.0
    upstream_s: float = 0.0
    deltas: int = 0
    usage: Usage | None = None
    estimated_prompt_tokens: int | None = None
    rule: int | None = None
    candidates: tuple[str, ...] = ()
    ruled_out: tuple[tuple[str, str], ...] = ()
    refusal: str = ""

    @property
    def attempt_running(self) -> bool:
        """Whether a backend is being asked."""
        return any(not attempt.outcome for attempt in self.attempts)

    @property
    def attempts_sent(self) -> int:
        """How many attempts there were in earnest."""
        if len(self.attempts) == 1:
            return int(not self.attempts[0].refused)
        return sum(not attempt.refused for attempt in self.attempts)

    def record_error(self, error: GatewayError) -> None:
        """Note what the client is told."""
        self.error, self.param, self.message = error.code, error.param or "", error.logged

    def charge_failed_attempt(self) -> None:
        """What came so far was a failed attempt's: the client will not see it, but it cost."""
        for attempt in reversed(self.attempts):
            if not attempt.role:
                attempt.deltas, attempt.usage = self.deltas, counts_of(self.usage)
                break
        self.deltas, self.usage, self.first_content_at = 0, None, None

    @property
    def hedged(self) -> tuple[str, ...]:
        """The backends that were asked at once, the later one last; () without a hedge."""
        for place, attempt in enumerate(self.attempts):
            if attempt.hedge:
                return self.attempts[place - 1].backend, attempt.backend
        return ()

    def upstream_ms(self, now: float) -> float:
        """Milliseconds in which a backend was being asked; retries' pauses are not in it."""
        if len(self.attempts) == 1 and self.attempts[0].outcome:
            return self.attempts[0].ms
        running = now - self.upstream_since if self.attempt_running else 0.0
        return (self.upstream_s + running) * 1e3

    def on_attempt_end(self, at: float) -> None:
        """A try is over, and its outcome known: the last of those that were under way?

        Of a try that has succeeded, and was the only one, its own time tells as much.
        """
        if not self.attempt_running:
            self.upstream_s += at - self.upstream_since
