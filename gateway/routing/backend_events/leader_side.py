"""The events of backends of all processes, in the leader."""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.routing.backend_events.book import EventBook
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, ListedEvent


class EventsAsked(Struct, frozen=True, kw_only=True, tag=True):
    """All events, the newest first; answered by a list of ListedEvent."""


class BackendEventsLeader(LeaderSide[BackendEvent, None]):
    """book: logs and counts them as well."""

    receives = BackendEvent
    questions = EventsAsked

    def __init__(self, at: LeaderContext) -> None:
        self.book = EventBook()
        at.registry.register(self.book)

    def on_message(self, worker: int, message: BackendEvent) -> None:
        self.book.add(message)

    async def answer(self, question: EventsAsked) -> Sequence[ListedEvent]:
        return self.book.newest()
