"""One step of a request, and where it stands among the others.

`Endpoint` runs the stages of a route in the order of `Place`. Within a place, those of parts come
first, in the order of `assembly/parts.py`; those of the request path itself are in
gateway/http/request_stages.py. A configuration that does not use a part has none of its stages.
"""

from collections.abc import Awaitable, Sequence
from enum import IntEnum
from typing import Protocol

from strowger_gateway.gateway.stages.request_context import RequestContext


class Place(IntEnum):
    """Where a stage stands. What each of them begins with:

    ADMIT:        the head of the request; its record has begun, and it is counted.
    AUTHENTICATE: the gateway takes it.
    READ:         `caller`; nothing of the body is in memory.
    PARSE:        the bytes of the body.
    FIND_ROUTE:   `request`.
    RESERVE:      `route`.
    EXAMINE:      everything that may refuse the request without its content has let it pass.
    PLAN:         what backends may receive.
    ANSWER:       `plan`.
    """

    ADMIT = 0
    AUTHENTICATE = 1
    READ = 2
    PARSE = 3
    FIND_ROUTE = 4
    RESERVE = 5
    EXAMINE = 6
    PLAN = 7
    ANSWER = 8


class Stage(Protocol):
    """One step of the requests of one route and one generation.

    slot: its place in `RequestContext.slots`, set when the stages of a route are put together.
    leaves: whether `leave` does something.
    """

    slot: int

    @property
    def place(self) -> Place: ...

    @property
    def leaves(self) -> bool: ...

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Take the request on. Raising a GatewayError ends it with that error.

        Returns `None` if it is done, or what has to be awaited until it is: what never waits costs
        no coroutine.
        """
        ...

    def leave(self, request: RequestContext) -> None:
        """The request has ended, in whatever way: settle, release, close. Raises nothing.

        Called once for each request, in the reverse order of the stages: also if the request has
        ended before `enter`, or in the midst of it. Then its slot is as `enter` has left it.
        """
        ...


class BaseStage:
    """A stage that holds nothing: override what it does. See Stage."""

    slot = 0
    leaves = False

    def leave(self, request: RequestContext) -> None:
        """Nothing is held."""


class RouteStages:
    """The stages of one route and generation: their methods, in the order in which they are called.

    Methods, because a loop over objects of many classes looks each of them up, which takes longer
    than most stages do.

    enter: of all stages. leave: of those that hold something, in the reverse order.
    slots: the places in `RequestContext.slots`.
    """

    __slots__ = ("enter", "leave", "slots")

    def __init__(self, parts: Sequence[Stage], own: Sequence[Stage]) -> None:
        """parts: of all parts, in their order. own: of the request path."""
        ordered = sorted([*parts, *own], key=_place)  # which keeps the order within a place
        self.enter = tuple([one.enter for one in ordered])
        self.leave = tuple([one.leave for one in reversed(ordered) if one.leaves])
        for slot, one in enumerate(parts):
            one.slot = slot
        self.slots = len(parts)


def _place(stage: Stage) -> Place:
    return stage.place
