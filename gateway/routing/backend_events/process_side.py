"""The events of a serving process's backends, and the list of those of all processes."""

from collections.abc import Callable, Mapping
from typing import Protocol

from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.routing.backend_events.book import EventBook
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, ListedEvent
from strowger_gateway.gateway.routing.backend_events.leader_side import EventsAsked
from strowger_gateway.gateway.routing.backend_events.watch import BackendWatch
from strowger_gateway.gateway.routing.planning.route import Backend, RouteTable


class RoutedGeneration(Protocol):
    """A generation of the configuration. backends: by their names."""

    @property
    def backends(self) -> Mapping[str, Backend]: ...
    @property
    def table(self) -> RouteTable: ...


class BackendEventsSide(ProcessSide[BackendEvent, None]):
    """watch: turns what happens to backends into events. Without a leader they are kept here."""

    def __init__(self, at: ProcessContext) -> None:
        self._ask = at.ask
        self._own: EventBook | None = None
        send: Callable[[BackendEvent], None] = at.send
        if at.alone and at.leader is None:
            self._own = EventBook()
            at.registry.register(self._own)
            send = self._own.add
        self.watch = BackendWatch(send)

    def follow(self, generation: RoutedGeneration) -> None:
        routes = generation.table.routes.values()
        self.watch.follow(generation.backends, {one.name: one.fallback for one in routes})

    async def newest(
        self, limit: int, wanted: Callable[[BackendEvent], bool] = lambda _: True
    ) -> list[ListedEvent]:
        """Return the last events of all processes, the newest first.

        Raises Unavailable if the leader does not answer.
        """
        self.watch.look()
        if self._own is not None:
            return self._own.newest(limit, wanted)
        everyone = await self._ask(EventsAsked(), list[ListedEvent])
        return [one for one in everyone if wanted(one.event)][:limit]
