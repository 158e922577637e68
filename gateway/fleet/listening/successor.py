"""The old gateway's side of a hand-over: start a new one, and drain when it serves.

The new process inherits the listening sockets, so their queues never have no owner. It is started
with the command line and the environment of this one, and reads the files of today: code, and
configuration. Until it is ready nothing changes here; if it ends before that, this gateway goes on.
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from strowger_gateway.gateway.fleet.listening.accept_queue import Mode
from strowger_gateway.gateway.fleet.listening.hand_over_messages import (
    VARIABLE,
    Accept,
    Freed,
    Offer,
    from_new,
    line_of,
)
from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.gateway.fleet.listening.systemd import notify

_log = logging.getLogger("strowger")

START_S: Final = 1800.0
"""Seconds for a new gateway to become ready: engines load models of many gigabytes."""


class HandOver:
    """Hands this gateway over to a new process, at most once."""

    def __init__(
        self,
        listener: Listener,
        access_log: Path,
        *,
        carried: Callable[[], dict[str, msgspec.Raw]],
        surfaces: Callable[[], tuple[str, ...]],
        drain: Callable[[Mode], None],
        release: Callable[[], Awaitable[None]],
    ) -> None:
        """access_log: its lock. carried: returns what parts of the new one need.

        surfaces: returns those that clients have used, which the new gateway loads first.
        drain: finishes what is open. release: ends what may run only once.
        """
        self._listener = listener
        self._access_log = access_log
        self._carried = carried
        self._surfaces = surfaces
        self._drain = drain
        self._release = release
        self._running: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._over = self._handed = False

    def begin(self) -> None:
        """Start a new gateway, unless one is starting."""
        if self._over or (self._running is not None and not self._running.done()):
            _log.warning("not handing over: a new gateway is starting already, or this one ends")
        elif os.getpid() == 1:
            # A container ends with its first process, whatever else runs in it.
            message = "not handing over: this is process 1 of a container; start another container"
            _log.error(message)
        else:
            self._running = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Drain without a successor."""
        self._abandon()
        notify("STOPPING=1")
        self._drain("leave" if self._listener.kept else "refuse")

    async def close(self) -> None:
        """End a new gateway that is not ready yet; finish what was promised to one that is."""
        self._abandon()
        if self._running is not None:
            if not self._handed:
                self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _abandon(self) -> None:
        if not self._over:
            self._over = True
            if self._process is not None:
                self._process.terminate()

    async def _run(self) -> None:
        _log.info("starting a new gateway, to hand over to it")
        try:
            self._process, ours = self._spawn()
        except OSError as exc:
            _log.error("a new gateway cannot be started, going on: %s", exc)
            return
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            await self._hand_over(self._process, reader, writer)
        finally:
            writer.close()

    def _spawn(self) -> "tuple[subprocess.Popen[bytes], socket.socket]":
        """Start the process, and offer it the sockets. Raises OSError."""
        ours, theirs = socket.socketpair()
        listening = tuple(one.fileno() for one in self._listener.sockets)
        offer = Offer(
            sockets=listening,
            place=self._listener.place,
            kept=self._listener.kept,
            access_log=str(self._access_log),
            surfaces=self._surfaces(),
        )
        with theirs:
            try:
                process = subprocess.Popen(
                    (sys.executable, *sys.orig_argv[1:]),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), *listening),
                    env={**os.environ, VARIABLE: str(theirs.fileno())},
                )
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        ours.send(line_of(offer))
        return process, ours

    async def _hand_over(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            async with asyncio.timeout(START_S):
                line = await reader.readline()
        except TimeoutError:
            _log.error("the new gateway was not ready after %g s; ending it, and going on", START_S)
            process.kill()
            line = b""
        except OSError:
            line = b""
        if not line:
            status = await asyncio.to_thread(process.wait)
            self._process = None
            if not self._over:
                message = "the new gateway exited with status %d before it was ready; going on"
                _log.error(message, status)
            return
        if self._over:
            return
        ready = from_new.decode(line)
        self._over = self._handed = True
        _log.info("process %d takes over; finishing open connections", process.pid)
        notify(f"MAINPID={process.pid}")
        carried = self._carried()
        self._drain("hand_over" if ready.takes else "refuse")
        writer.write(line_of(Accept(parts=carried)))
        try:
            await self._release()
        finally:
            writer.write(line_of(Freed()))
            await writer.drain()
