"""A part that requests pass: what it keeps of each generation, and its stages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessSide

if TYPE_CHECKING:
    from strowger_gateway.gateway.stages.generation import Generation
    from strowger_gateway.gateway.stages.stage import Stage
    from strowger_gateway.gateway.surfaces.hot_route import HotRoute

ToLeaderT = TypeVar("ToLeaderT")
ToWorkerT = TypeVar("ToWorkerT")


class Closing(Protocol):
    """A resource that several generations may share, and that the last of them closes."""

    async def aclose(self) -> None: ...


class Prepared:
    """What a part has built for one generation: frozen, and known to the part's side."""

    def closing(self) -> Sequence[Closing]:
        """Return what is closed after the last request of all generations that have it."""
        return ()


class RequestPart(Part):
    """`prepare` is called where a generation is built: in serving processes, and by commands that
    try a configuration, such as `strowger check`."""

    def prepare(self, generation: "Generation", before: Prepared | None) -> Prepared | None:
        """Build what a generation needs; nothing is in force yet. before: of the one in force.

        Raises InvalidConfig with the problems, which rejects the reload, or ends the start.
        """
        return None


class RequestSide(ProcessSide[ToLeaderT, ToWorkerT], Generic[ToLeaderT, ToWorkerT]):
    """A side in a serving process that brings stages."""

    def stages(self, generation: "Generation", prepared: Any, at: "HotRoute") -> "Sequence[Stage]":
        """Return the stages of a route's requests in a generation, new objects at each call.

        Called with the first request of the route, and after `stages_changed`. prepared: what
        `RequestPart.prepare` has returned for this generation. None at all, if the configuration
        does not use the part.
        """
        return ()
