"""What the leader and the serving processes send each other about holds."""

from msgspec import Struct

from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold


class HoldList(Struct, frozen=True, kw_only=True, tag=True):
    """All holds in effect, by name. Answers `ReadHolds`, and goes to all processes."""

    holds: tuple[BackendHold, ...] = ()


class ReadHolds(Struct, frozen=True, kw_only=True, tag=True):
    """Read the store now, because this process has changed it, or wants to know."""
