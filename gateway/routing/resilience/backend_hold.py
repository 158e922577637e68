"""A hold on a backend, an operator's or the gateway's own: no new requests until it ends."""

from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

OperatorState = Literal["draining", "disabled"]
HoldState = Literal["draining", "disabled", "over_budget"]
"""draining: no new requests; those in flight end, and health checks go on. disabled: no health
checks either, so that nothing reaches the backend. over_budget: as draining, because a spend cap of
its provider is used up; the gateway's own."""


class BackendHold(Struct, frozen=True, kw_only=True):
    """Times are Unix seconds.

    name:   what is held: PROVIDER for all its backends, PROVIDER/MODEL, or one replica of it.
    reason: as the operator gave it, "" for none. by: who it was.
    until:  when it ends by itself; `None`: when an operator ends it.
    """

    name: str
    state: HoldState
    reason: str = ""
    by: str = ""
    since: float = 0.0
    until: float | None = None

    @property
    def words(self) -> str:
        """`draining since 2026-11-30T20:41:00Z: moving the account; until …`."""
        text = f"{self.state} since {instant(self.since)}"
        if self.reason:
            text += f": {self.reason}"
        return text if self.until is None else f"{text}; until {instant(self.until)}"

    @property
    def own(self) -> bool:
        """Whether it is the gateway's, so that no operator has to end it."""
        return self.state == "over_budget"

    def is_over(self, at: float) -> bool:
        """Whether it has ended by itself. at: Unix seconds."""
        return self.until is not None and self.until <= at


def instant(at: float) -> str:
    """Return Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
