"""The leader's sides of all parts: what is built, called and closed for each of them, in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.assembly.part_failures import Apart
from strowger_gateway.gateway.assembly.part_messages import PartDecoder, packed, unpacked
from strowger_gateway.gateway.audit.log import AuditLog
from strowger_gateway.gateway.config.parts.named import named
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.reload_result import ReloadResult
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import GatewayError, Unavailable

_log = logging.getLogger("strowger")

T = TypeVar("T")

SendPart = Callable[[str, object], None]
"""Sends a message of the part that is named."""

_TAKING = "taking a message"


class Works(Protocol):
    """A side with work that runs as long as it does."""

    def works(self) -> Sequence[Work]: ...


class LeaderState(Struct, frozen=True, kw_only=True, eq=False):
    """What parts get of the leader: see LeaderContext."""

    first: Config
    config: Callable[[], Config]
    registry: CollectorRegistry
    crashed: OnCrash
    store: SqlStore
    imported_at: Callable[[], float]
    audit: AuditLog
    alone: bool
    run_dir: Path
    freed: Callable[[], Awaitable[None]] | None


class LeaderParts:
    """The sides by their parts' names, from their creation until `close`. listed: all parts."""

    def __init__(self, parts: Sequence[Part], state: LeaderState) -> None:
        """Raises InvalidConfig."""
        self.listed = tuple(parts)
        self._workers: dict[int, SendPart] = {}
        self._decoder = PartDecoder()
        self._apart = Apart(state.crashed)
        self.sides: dict[str, LeaderSide[Any, Any]] = {}
        for part in parts:
            with named(part.name, "building the leader's side"):
                side = part.leader(self._context(part.name, state))
            if side is not None:
                self.sides[part.name] = side

    def side(self, kind: type[T], /) -> T:
        """Return the side of this class. Raises LookupError if there is none."""
        for one in self.sides.values():
            if isinstance(one, kind):
                return one
        raise LookupError(f"no part's leader side is a {kind.__name__}")

    async def prepare(self, config: Config) -> None:
        """Get ready for a configuration. Raises InvalidConfig."""
        for name, one in self.sides.items():
            with named(name, "preparing a configuration"):
                await one.prepare(config)

    def reloaded(self, result: ReloadResult) -> None:
        """The file was read again: its configuration is in effect, or rejected."""
        for name, one in self.sides.items():
            with self._apart(name, "noting a reload"):
                one.reloaded(result)

    async def start(self) -> None:
        """Read what is needed before a process serves."""
        await all_started({name: one.start() for name, one in self.sides.items()})

    def works(self) -> list[Work]:
        """Return what runs from the start to the end."""
        return works_of(self.sides)

    def first(self) -> dict[str, object]:
        """Return what a new worker's sides are built with, by part."""
        found: dict[str, object] = {}
        for name, one in self.sides.items():
            with named(name, "telling a new worker of the state"):
                message = one.first()
            if message is not None:
                found[name] = message
        return found

    def joined(self, worker: int, send: SendPart) -> None:
        """A worker gets messages from now on."""
        self._workers[worker] = send
        for name, one in self.sides.items():
            with self._apart(name, "noting a new worker"):
                one.joined(worker, partial(send, name))

    def left(self, worker: int) -> None:
        """A worker has exited."""
        self._workers.pop(worker, None)
        for name, one in self.sides.items():
            with self._apart(name, "noting the end of a worker"):
                one.left(worker)

    def on_message(self, worker: int, part: str, message: object) -> None:
        """Take a message of a worker's side."""
        try:
            self.sides[part].on_message(worker, message)
        except Exception as exc:  # noqa: BLE001  it must not end the worker, or what sent it
            self._apart.failed(part, _TAKING, exc)

    def receive(self, worker: int, part: str, body: bytes) -> None:
        """Take an encoded message of a worker's side."""
        try:
            message = self._decoder.decode(part, body, self.sides[part].receives)
        except (LookupError, msgspec.DecodeError) as exc:
            self._apart.failed(part, _TAKING, exc)
        else:
            self.on_message(worker, part, message)

    async def answer_packed(self, part: str, body: bytes) -> bytes:
        """Answer an encoded question."""
        return packed(await self.answer(part, unpacked(body, self.sides[part].questions)))

    async def answer(self, part: str, question: object) -> object:
        """Answer what a worker's side asks. Its client may leave; others may wait for the same.

        Raises Unavailable if the part cannot.
        """
        try:
            return await asyncio.shield(asyncio.ensure_future(self.sides[part].answer(question)))
        except GatewayError:
            raise
        except Exception as exc:  # noqa: BLE001  who asks must not wait for what never comes
            self._apart.failed(part, "answering a question", exc)
            raise Unavailable(f"{part} cannot answer", retry_after=1) from None

    def carried(self) -> dict[str, msgspec.Raw]:
        """Return what the gateway that takes over needs to know, by part, as JSON."""
        carried: dict[str, msgspec.Raw] = {}
        for name, one in self.sides.items():
            with self._apart(name, "handing over"):
                found = one.carried()
                if found is not None:
                    carried[name] = msgspec.Raw(msgspec.json.encode(found))
        return carried

    def carry(self, found: Mapping[str, msgspec.Raw]) -> None:
        """Take what an earlier gateway has carried, which may be another version."""
        for name, body in found.items():
            side = self.sides.get(name)
            if side is None or side.carries is None:
                continue
            try:
                known = msgspec.json.decode(body, type=side.carries)
            except msgspec.DecodeError as exc:
                _log.error("what the old gateway knew of %s is not used: %s", name, exc)
                continue
            with self._apart(name, "taking over"):
                side.carry(known)

    async def release(self) -> None:
        """End what may run in one gateway at a time."""
        releasing = {name: one.release() for name, one in self.sides.items()}
        await all_ended(releasing, "releasing it", self._apart)

    async def close(self) -> None:
        """Close them all, the last one first; they wait for what they close at the same time."""
        closing = {name: self.sides[name].close() for name in reversed(self.sides)}
        await all_ended(closing, "closing it", self._apart)

    def _context(self, name: str, state: LeaderState) -> LeaderContext:
        return LeaderContext(
            first=state.first,
            config=state.config,
            registry=state.registry,
            crashed=state.crashed,
            store=state.store,
            imported_at=state.imported_at,
            audit=state.audit,
            broadcast=partial(self._broadcast, name),
            side=self.side,
            alone=state.alone,
            run_dir=state.run_dir,
            freed=state.freed,
        )

    def _broadcast(self, part: str, message: object) -> None:
        for send in tuple(self._workers.values()):
            send(part, message)


async def all_started(starting: Mapping[str, Awaitable[None]]) -> None:
    """Wait for the starts of sides, by part. Raises what one of them raises, with its name."""

    async def started(name: str, start: Awaitable[None]) -> None:
        with named(name, "its start"):
            await start

    await asyncio.gather(*(started(name, start) for name, start in starting.items()))


async def all_ended(ending: Mapping[str, Awaitable[None]], what: str, apart: Apart) -> None:
    """Wait for the ends of sides, by part. A bug in one costs no other what it has to write."""
    ends = await asyncio.gather(*ending.values(), return_exceptions=True)
    for name, end in zip(ending, ends, strict=True):
        if end is not None:
            apart.failed(name, what, end)


def works_of(sides: Mapping[str, Works]) -> list[Work]:
    """Return what runs as long as the sides do, which are named by part."""
    found: list[Work] = []
    for name, one in sides.items():
        with named(name, "listing what it runs"):
            found += one.works()
    return found
