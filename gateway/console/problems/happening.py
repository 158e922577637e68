"""One thing that has happened: of a backend, of this gateway, or a problem that began or ended."""

from typing import Literal

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.console.problems.problem import GatewayProblem
from strowger_gateway.gateway.routing.backend_events.event import ListedEvent
from strowger_gateway.gateway.routing.backend_events.log_line import WARNED, line_of

REQUESTED_CHARS = 100
"""Characters of a name that a client chose."""

Tone = Literal["bad", "warn", "good", ""]


class Happening(Struct, frozen=True, kw_only=True):
    """One event. Times are Unix seconds, durations seconds; empty where it has none.

    kind:      of backends, as BackendEvent has it, such as `circuit_opened`. Of gateways,
               `started`, `stopped`, `reloaded`, `reload_rejected` or `worker_exited`. Of a problem
               that has begun, its kind, such as `store_down`; then `ended`, whose `subject` is that
               kind.
    gateway:   HOST (PID) of the replica that has seen it.
    text:      one sentence in English. code, message: of the last failure, without texts of clients
               and without keys; or the reason of an operator.
    backend:   PROVIDER/MODEL, with ` @ HOST:PORT` of a replica; "" for events of the model.
    requested: for one name of a wildcard, the name that clients requested.
    phase:     of the backend from then on. fallback: who serves a model without backend.
    failed_share: of the attempts in the breaker's window, as one process has seen them, 0 to 1.
    failed_in_row: attempts without a success, at least. since: when nothing succeeded any more.
    duration_s: how long it was down. for_s: how long it gets no requests.
    by:        the operator who did it.
    left_out:  events of the same backend before it that are not listed, because they were too many.
    """

    time: float
    kind: str
    gateway: str = ""
    tone: Tone = ""
    subject: str = ""
    model: str = ""
    backend: str = ""
    requested: str = ""
    phase: str = "up"
    code: str = ""
    message: str = ""
    text: str = ""
    failed_share: float | None = None
    failed_in_row: int = 0
    since: float | None = None
    duration_s: float | None = None
    for_s: float | None = None
    seen_by: int = 0
    fallback: tuple[str, ...] = ()
    by: str = ""
    left_out: int = 0


def of_backend(listed: ListedEvent, gateway: str) -> Happening:
    """Return an event of a backend."""
    event = listed.event
    values = msgspec.structs.asdict(event)
    values["requested"] = event.requested[:REQUESTED_CHARS]
    values["text"] = line_of(listed)
    tone = "bad" if event.kind in (*WARNED, "refused") else ""
    values |= {"tone": tone, "gateway": gateway, "left_out": listed.left_out}
    return msgspec.convert(values, Happening)


def begun(one: GatewayProblem, at: float, gateway: str) -> Happening:
    """Return the event that a problem has begun."""
    return Happening(
        time=at,
        kind=one.kind,
        gateway=gateway,
        tone="bad" if one.severity == "critical" else "warn",
        subject=one.subject,
        model=one.model,
        backend=one.backend,
        message=one.cause,
        text=one.message,
        since=one.since,
    )


def ended(one: GatewayProblem, at: float, gateway: str) -> Happening:
    """Return the event that a problem has ended."""
    return Happening(
        time=at,
        kind="ended",
        gateway=gateway,
        tone="good",
        subject=one.kind,
        model=one.model,
        backend=one.backend,
        text=f"over: {one.message}",
        duration_s=None if one.since is None else max(0.0, at - one.since),
    )
