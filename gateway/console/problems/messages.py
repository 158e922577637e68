"""What the sides of problems send each other."""

from msgspec import Struct

from strowger_gateway.gateway.console.problems.happening import Happening
from strowger_gateway.gateway.console.problems.metric_rules import CounterTotals
from strowger_gateway.gateway.console.problems.problem import GatewayProblem


class Judged(Struct, frozen=True, kw_only=True, tag=True):
    """What is wrong now, as one process sees it."""

    problems: tuple[GatewayProblem, ...]
    totals: CounterTotals


class KnownAsked(Struct, frozen=True, kw_only=True, tag=True):
    """The problems and events that the leader knows; answered by Known."""


class Known(Struct, frozen=True, kw_only=True):
    """problems: with the times since when they last. events: in memory, the newest first.

    gateway: the name of this one.
    """

    gateway: str
    problems: tuple[GatewayProblem, ...] = ()
    events: tuple[Happening, ...] = ()
