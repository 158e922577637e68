"""The leader's sides of all parts: what is built, called and closed for each of them, in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.assembly.part_messages import PartDecoder, packed, unpacked
from strowger_gateway.gateway.audit.log import AuditLog
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.storage.sql.sql import SqlStore

_log = logging.getLogger("strowger")

T = TypeVar("T")

SendPart = Callable[[str, object], None]
"""Sends a message of the part that is named."""


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
        self._crashed = state.crashed
        self.sides: dict[str, LeaderSide[Any, Any]] = {}
        for part in parts:
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
        for one in self.sides.values():
            await one.prepare(config)

    async def start(self) -> None:
        """Read what is needed before a process serves."""
        await asyncio.gather(*(one.start() for one in self.sides.values()))

    def works(self) -> list[Work]:
        """Return what runs from the start to the end."""
        return [work for one in self.sides.values() for work in one.works()]

    def first(self) -> dict[str, object]:
        """Return what a new worker's sides are built with, by part."""
        found = {name: one.first() for name, one in self.sides.items()}
        return {name: message for name, message in found.items() if message is not None}

    def joined(self, worker: int, send: SendPart) -> None:
        """A worker gets messages from now on."""
        self._workers[worker] = send
        for name, one in self.sides.items():
            one.joined(worker, partial(send, name))

    def left(self, worker: int) -> None:
        """A worker has exited."""
        self._workers.pop(worker, None)
        for one in self.sides.values():
            one.left(worker)

    def on_message(self, worker: int, part: str, message: object) -> None:
        """Take a message of a worker's side."""
        self.sides[part].on_message(worker, message)

    def receive(self, worker: int, part: str, body: bytes) -> None:
        """Take an encoded message of a worker's side."""
        self.on_message(worker, part, self._decoder.decode(part, body, self.sides[part].receives))

    async def answer_packed(self, part: str, body: bytes) -> bytes:
        """Answer an encoded question."""
        return packed(await self.answer(part, unpacked(body, self.sides[part].questions)))

    async def answer(self, part: str, question: object) -> object:
        """Answer what a worker's side asks. Its client may leave; others may wait for the same."""
        return await asyncio.shield(asyncio.ensure_future(self.sides[part].answer(question)))

    def carried(self) -> dict[str, msgspec.Raw]:
        """Return what the gateway that takes over needs to know, by part, as JSON."""
        found = {name: one.carried() for name, one in self.sides.items()}
        return {
            name: msgspec.Raw(msgspec.json.encode(one))
            for name, one in found.items()
            if one is not None
        }

    def carry(self, found: Mapping[str, msgspec.Raw]) -> None:
        """Take what an earlier gateway has carried, which may be another version."""
        for name, body in found.items():
            side = self.sides.get(name)
            if side is None or side.carries is None:
                continue
            try:
                side.carry(msgspec.json.decode(body, type=side.carries))
            except msgspec.DecodeError as exc:
                _log.error("what the old gateway knew of %s is not used: %s", name, exc)

    async def release(self) -> None:
        """End what may run in one gateway at a time."""
        await asyncio.gather(*(one.release() for one in self.sides.values()))

    async def close(self) -> None:
        """Close them all, the last one first; they wait for what they close at the same time."""
        closing = {name: self.sides[name].close() for name in reversed(self.sides)}
        await all_closed(closing, self._crashed)

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


async def all_closed(closing: Mapping[str, Awaitable[None]], crashed: OnCrash) -> None:
    """Wait for the ends of sides, by part. A bug in one costs no other what it has to write."""
    ends = await asyncio.gather(*closing.values(), return_exceptions=True)
    for name, end in zip(closing, ends, strict=True):
        if end is not None:
            _log.error("internal error: closing %s failed", name, exc_info=end)
            crashed("closing parts")
