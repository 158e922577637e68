"""What happened to one request: filled in on the way, read once for headers, log and metrics."""

from typing import Literal

from msgspec import Struct

from schemas.events import Usage


class Attempt(Struct, kw_only=True, omit_defaults=True):
    """One try at one backend.

    outcome: `ok`, `cancelled`, or the error's code. ms: its length.
    pattern: the backend as configured, where that is a wildcard.
    refused: nothing was sent, for the request cannot be said in the backend's words.
    role:    "" is one whose answer the client would have seen: it served, or failed.
    deltas, usage: as the trip's, of an attempt whose answer is not the request's: it failed before
             the client saw anything, lost against a hedge, or was a mirror.
    """

    backend: str
    pattern: str = ""
    outcome: str = ""
    ms: float = 0.0
    refused: bool = False
    role: Literal["", "hedge", "mirror"] = ""
    deltas: int = 0
    usage: Usage | None = None


class Trip(Struct, kw_only=True):
    """The mutable record of one request. Times are loop times in seconds, `None` until known.

    deltas:  content events given out so far, the estimate of tokens when no usage arrives.
    deltas, usage, first_content: of the last attempt with the role ""; `set_aside` them before
             another.
    experiment, epoch, variant, unit: as assigned; unit is hashed. "" and 0 without an experiment;
             variant and unit are also "" where nobody could be assigned.
    fallback: a backend answers that is not the variant's.
    """

    request_id: str
    started: float
    surface: str = ""
    task: str = ""
    model: str = ""
    route: str = ""
    caller: str = ""
    stream: bool = False
    backend: str = ""
    variant: str = ""
    experiment: str = ""
    epoch: int = 0
    unit: str = ""
    fallback: bool = False
    dropped: tuple[str, ...] = ()
    attempts: list[Attempt]
    client_request_id: str = ""
    error: str = ""
    first_content: float | None = None
    attempt_started: float | None = None
    deltas: int = 0
    usage: Usage | None = None

    @property
    def asked(self) -> int:
        """How many attempts there were in earnest."""
        return sum(not attempt.refused for attempt in self.attempts)

    def set_aside(self) -> None:
        """What came so far was a failed attempt's: the client will not see it, but it cost."""
        for attempt in reversed(self.attempts):
            if not attempt.role:
                attempt.deltas, attempt.usage = self.deltas, self.usage
                break
        self.deltas, self.usage, self.first_content = 0, None, None

    def upstream_ms(self, now: float) -> float:
        """Time spent in attempts up to `now`, milliseconds; retries' pauses are not in it."""
        ended = sum(attempt.ms for attempt in self.attempts)
        return ended if self.attempt_started is None else ended + (now - self.attempt_started) * 1e3
