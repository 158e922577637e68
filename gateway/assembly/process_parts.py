"""The sides of all parts in a serving process: what is built, called and closed for each of them.

`Link` is their connection to the leader's sides: in the same process (`SameProcess`), in another
one (gateway/fleet/processes/other_workers.py), or to nothing (`NoLeader`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.assembly.leader_parts import (
    LeaderParts,
    all_ended,
    all_started,
    works_of,
)
from strowger_gateway.gateway.assembly.part_failures import Apart
from strowger_gateway.gateway.config.parts.named import named
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.recording.ended_requests import (
    EndedRequests,
    TakesEnded,
)
from strowger_gateway.gateway.parts.leader_side import LeaderSide, Work
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import Asks, First, ProcessContext, ProcessSide
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_part import Prepared, RequestSide
from strowger_gateway.gateway.stages.stage import Stage
from strowger_gateway.gateway.storage.sql.rows import Recorder
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.errors import Unavailable

T = TypeVar("T")


class Link(Protocol):
    """What connects the sides of this process with the leader's, by part.

    worker: the number of this process. alone: no other process serves.
    """

    @property
    def worker(self) -> int: ...
    @property
    def alone(self) -> bool: ...
    def leader(self, part: str) -> LeaderSide[Any, Any] | None:
        """Return the leader's side if it is in this process."""
        ...

    def first(self, part: str, kind: type[T], /) -> T | None:
        """Return the message with which the side is built."""
        ...

    def send(self, part: str, message: object) -> None:
        """Send a message to the leader's side."""
        ...

    def ask(self, part: str, question: object, kind: type[T], /) -> Awaitable[T]:
        """Ask the leader's side. Raises Unavailable."""
        ...


class NoLeader:
    """A process by itself: parts keep what they have in memory."""

    worker, alone = 0, True

    def leader(self, part: str) -> LeaderSide[Any, Any] | None:
        return None

    def first(self, part: str, kind: type[T], /) -> T | None:
        return None

    def send(self, part: str, message: object) -> None:
        """No leader takes it."""

    async def ask(self, part: str, question: object, kind: type[T], /) -> T:
        raise Unavailable("this gateway has no leader")


class SameProcess:
    """The only process, which leads and serves: messages are handed over as they are."""

    worker, alone = 0, True

    def __init__(self, leader: LeaderParts) -> None:
        self._leader = leader
        self._first = leader.first()

    def leader(self, part: str) -> LeaderSide[Any, Any] | None:
        return self._leader.sides.get(part)

    def first(self, part: str, kind: type[T], /) -> T | None:
        return cast("T | None", self._first.get(part))

    def send(self, part: str, message: object) -> None:
        self._leader.on_message(0, part, message)

    async def ask(self, part: str, question: object, kind: type[T], /) -> T:
        return cast(T, await self._leader.answer(part, question))


class ProcessState(Struct, frozen=True, kw_only=True, eq=False):
    """What parts get of the process: see ProcessContext.

    own: what `ProcessContext.own` finds.
    """

    config: Callable[[], Config]
    registry: CollectorRegistry
    crashed: OnCrash
    recorder: Recorder | None
    store: SqlStore | None
    access: StoreAccess | None
    own: Sequence[object]
    flush: Callable[[], None]
    stages_changed: Callable[[], None]


class ProcessParts:
    """The sides by their parts' names, from their creation until `close`. listed: all parts."""

    def __init__(self, parts: Sequence[Part], state: ProcessState, link: Link) -> None:
        """link: to the leader's sides."""
        self.listed = tuple(parts)
        self._state = state
        self._apart = Apart(state.crashed)
        self._link = link
        self._by_class: dict[type, object] = {}
        self.sides: dict[str, ProcessSide[Any, Any]] = {}

    def build(self) -> None:
        """Build the sides, which may already use the process. Raises InvalidConfig."""
        for part in self.listed:
            with named(part.name, "building its side in this process"):
                side = part.process(self._context(part.name))
            if side is not None:
                self.sides[part.name] = side
                self._by_class[type(side)] = side

    def side(self, kind: type[T], /) -> T:
        """Return the side of this class. Raises LookupError if there is none."""
        return cast(T, self._by_class[kind])

    async def start(self) -> None:
        """Read what is needed before the process serves."""
        await all_started({name: one.start() for name, one in self.sides.items()})

    async def ready(self, config: Config) -> None:
        """Get ready for a configuration that may take effect. Raises InvalidConfig."""
        for name, one in self.sides.items():
            with named(name, "getting ready"):
                await one.ready(config)

    def use(self, config: Config) -> None:
        """A configuration is in effect, in the parts after one that fails as well."""
        for name, one in self.sides.items():
            with self._apart(name, "using a configuration"):
                one.use(config)

    def follow(self, generation: object) -> None:
        """Requests begin with this generation from now on."""
        for name, one in self.sides.items():
            with self._apart(name, "following a generation"):
                one.follow(generation)

    def stages(
        self, generation: Generation, prepared: Mapping[str, Prepared], at: HotRoute
    ) -> list[Stage]:
        """Return the stages of a route's requests, in the order of the parts."""
        found: list[Stage] = []
        for name, side in self.sides.items():
            if isinstance(side, RequestSide):
                with named(name, "making stages"):
                    found += side.stages(generation, prepared.get(name), at)
        return found

    def takers(self) -> list[Callable[[EndedRequests], None]]:
        """Return what takes the requests that have ended."""
        found: list[Callable[[EndedRequests], None]] = []
        for name, one in self.sides.items():
            if isinstance(one, TakesEnded):
                with self._apart(name, "taking ended requests"):
                    take = one.taker()
                    if take is not None:
                        found.append(take)
        return found

    def on_message(self, part: str, message: object) -> None:
        """Take a message of the leader's side."""
        self.receive(part, lambda receives: message)

    def receive(self, part: str, decoded: Callable[[Any], Any]) -> None:
        """Take a message that is still encoded. decoded: returns it, by what the side receives."""
        with self._apart(part, "taking a message"):
            side = self.sides[part]
            side.on_message(decoded(side.receives))

    async def idle(self) -> None:
        """Return when nothing of the requests that have ended runs any more."""
        for name, one in self.sides.items():
            with self._apart(name, "waiting for its end"):
                await one.idle()

    def works(self) -> list[Work]:
        """Return what runs while the process serves."""
        return works_of(self.sides)

    async def close(self, within_s: float) -> None:
        """Send and write the rest, the last part first; they wait for it at the same time."""
        closing = {name: self.sides[name].close(within_s) for name in reversed(self.sides)}
        await all_ended(closing, "closing it", self._apart)

    def _own(self, kind: type[T], /) -> T:
        for one in self._state.own:
            if isinstance(one, kind):
                return one
        raise LookupError(f"no {kind.__name__} in this process")

    def _context(self, name: str) -> ProcessContext:
        state, link = self._state, self._link
        first: Callable[..., Any] = partial(link.first, name)
        ask: Callable[..., Any] = partial(link.ask, name)
        return ProcessContext(
            worker=link.worker,
            alone=link.alone,
            leader=link.leader(name),
            config=state.config,
            registry=state.registry,
            crashed=state.crashed,
            recorder=state.recorder,
            store=state.store,
            access=state.access,
            first=cast(First, first),
            send=partial(link.send, name),
            ask=cast(Asks, ask),
            side=self.side,
            own=self._own,
            flush=state.flush,
            stages_changed=state.stages_changed,
        )
