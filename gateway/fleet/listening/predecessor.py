"""The new gateway's side of a hand-over: it starts next to the old one, then takes its place."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from strowger_gateway.gateway.fleet.listening.hand_over_messages import (
    VARIABLE,
    Accept,
    Freed,
    Offer,
    Ready,
    from_old,
    line_of,
)
from strowger_gateway.gateway.fleet.listening.listening_socket import Listener

_log = logging.getLogger("strowger")

_LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes of a message: an account of a limit takes about 100, and there may be many."""


class Predecessor:
    """The gateway that started this one to take its place.

    listener: its listening sockets. takes: this gateway uses them. When the old gateway dies, this
    one goes on as if it had given up everything. surfaces: those that its clients have used.
    """

    def __init__(self, control: socket.socket, offer: Offer) -> None:
        self._control = control
        self._access_log = Path(offer.access_log)
        self._freed = asyncio.Event()
        self._accepted: asyncio.Future[Accept] | None = None
        self._following: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.takes = False
        self.surfaces = offer.surfaces
        for number in offer.sockets:
            os.set_inheritable(number, False)
        self.listener = Listener(
            sockets=tuple(socket.socket(fileno=number) for number in offer.sockets),
            place=offer.place,
            kept=offer.kept,
        )

    @classmethod
    def of(cls, environment: MutableMapping[str, str] = os.environ) -> "Predecessor | None":
        """Return the gateway that started this process; `None` if none did. Blocks for its offer.

        Removes the variable, which children would take for their own.
        """
        number = environment.pop(VARIABLE, "")
        if not number.isdecimal():
            return None
        control = socket.socket(fileno=int(number))
        control.set_inheritable(False)
        control.setblocking(True)
        line = b""
        while not line.endswith(b"\n"):
            if not (byte := control.recv(1)):
                return None  # it has died: an ordinary start
            line += byte
        offer = from_old.decode(line)
        assert isinstance(offer, Offer)
        return cls(control, offer)

    def take(self, place: str) -> Listener | None:
        """Return the listening sockets if they are for this place; otherwise close them."""
        self.takes = self.listener.kept or self.listener.place == place
        if self.takes:
            return self.listener
        self.listener.close()
        return None

    def share_lock(self, path: Path) -> None:
        """Make `path` the lock that both gateways hold while they write to the access log."""
        with suppress(OSError):
            os.link(self._access_log, path)

    async def accepts(self) -> Accept:
        """Say that this gateway can serve, and return when it has to."""
        loop = asyncio.get_running_loop()
        self._accepted = loop.create_future()
        self._control.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=self._control, limit=_LONGEST_LINE)
        self._writer = writer
        self._following = loop.create_task(self._follow(reader, self._accepted))
        writer.write(line_of(Ready(takes=self.takes)))
        return await self._accepted

    async def take_over(
        self,
        warm: Callable[[], Awaitable[bool]],
        carry: Callable[[Mapping[str, msgspec.Raw]], None],
        begin: Callable[[], None],
        give_up: Callable[[], None],
    ) -> bool:
        """Begin to serve in place of the old gateway as soon as this one is ready.

        warm: returns when it is, or false if it never will be. carry: takes what the old gateway's
        parts have carried. Returns false after `give_up`.
        """
        try:
            if not await warm():
                _log.error("not taking over, because an engine has failed; the old gateway goes on")
                give_up()
                return False
            carry((await self.accepts()).parts)
        except Exception:  # noqa: BLE001  a bug must not leave a gateway that never serves
            _log.exception("internal error while taking over from the old gateway")
            give_up()
            return False
        begin()
        return True

    async def freed(self) -> None:
        """Return when the old gateway has ended what may run only once."""
        await self._freed.wait()

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
        if self._writer is not None:
            self._writer.close()
        else:
            self._control.close()

    async def _follow(
        self, reader: asyncio.StreamReader, accepted: "asyncio.Future[Accept]"
    ) -> None:
        try:
            while line := await reader.readline():
                match from_old.decode(line):
                    case Accept() as accept:
                        if not accepted.done():
                            accepted.set_result(accept)
                    case Freed():
                        _log.info("the old gateway finishes its last requests")
                        return
                    case Offer():
                        pass
            _log.warning("the old gateway exited before it had handed over; going on without it")
        except OSError as exc:
            _log.warning("lost the old gateway; going on without it: %s", exc)
        finally:
            if not accepted.done():
                accepted.set_result(Accept())
            self._freed.set()
