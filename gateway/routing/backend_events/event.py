"""One event of a backend: processes send it to the leader, and `GET /admin/events` lists it."""

from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.routing.resilience.breaker_state import Phase

Kind = Literal[
    "failing",
    "circuit_opened",
    "refused",
    "circuit_closed",
    "recovered",
    "removed",
    "cooldown",
    "no_backend",
    "backend_again",
    "check_failed",
    "check_passed",
    "draining",
    "disabled",
    "enabled",
    "over_budget",
    "within_budget",
]
"""failing: the third attempt in a row has failed. refused: the vendor refuses the operator's
account, key or model. recovered: something has succeeded after one of these. removed: a reload has
removed the backend, or changed its provider, while it was down. cooldown: it asked for a pause.
no_backend: no backend of the model works; backend_again: one does again. check_…: a health check
has failed after one that passed, or has passed again. draining, disabled, enabled: an operator
has taken the backend out of service, or put it back; `model` is "" then. over_budget,
within_budget: a spend cap of its provider is used up, or has room again; `model` is "", too."""


class BackendEvent(Struct, frozen=True, kw_only=True, tag=True):
    """One transition. Times are Unix seconds, durations seconds.

    model: as configured. backend: PROVIDER/MODEL, with ` @ HOST:PORT` of a replica; "" for events
    of the model. requested: the name that clients requested, for one name of a wildcard.
    phase: of the backend from now on; "up" of a model if a backend works.
    code, message: the last failure's, without texts of clients and without keys; "" if unknown.
    failed_share: of the attempts in the breaker's window, 0 to 1. failed_in_row: see FailureRun.
    since: since when nothing succeeds. duration_s: how long it was down, when that ends.
    for_s: how long it gets no requests, after a refusal or a 429. seen_by: see BreakerSnapshot.
    fallback: the models that serve requests of a model without backend.
    by: the operator who drained, disabled or enabled it; `message` has the reason.
    """

    time: float
    kind: Kind
    model: str
    backend: str = ""
    requested: str = ""
    phase: Phase = "up"
    code: str = ""
    message: str = ""
    failed_share: float | None = None
    failed_in_row: int = 0
    since: float | None = None
    duration_s: float | None = None
    for_s: float | None = None
    seen_by: int = 0
    fallback: tuple[str, ...] = ()
    by: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        """What it is about."""
        return self.model, self.backend, self.requested


class ListedEvent(Struct, frozen=True, kw_only=True):
    """An event as it is kept. left_out: how many before it, of the same backend, are not."""

    event: BackendEvent
    left_out: int = 0
