"""How the serving part of a process ends, without losing a request that it has accepted."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.config import ServerConfig
from strowger_gateway.gateway.fleet.listening.accept_queue import Mode, empty
from strowger_gateway.gateway.server.http1.server import HttpServer

_log = logging.getLogger("strowger")

CHECK_S: Final = 0.1
"""Interval between looks for connections that can be closed."""


class Draining:
    """Ends one process once.

    before_close: awaited while connections are still accepted and refused. By default it empties
    the queues of the sockets; with several workers, the leader does that.
    """

    def __init__(
        self, gateway: Gateway, server: HttpServer, settings: Callable[[], ServerConfig]
    ) -> None:
        self.before_close: Callable[[], Awaitable[None]] | None = None
        self.begun = asyncio.Event()
        self._gateway = gateway
        self._server = server
        self._settings = settings
        self._mode: Mode = "refuse"

    def begin(self, mode: Mode) -> None:
        """Nothing happens the second time, except that a lost leader ends the waiting."""
        if mode == "lost" or mode == "hand_over":
            self._server.stop_listening()
        if mode == "lost" or not self.begun.is_set():
            self._mode = mode
        self.begun.set()

    async def run(self, listening: Sequence[socket.socket]) -> None:
        """Wait for `begin`, drain, and stop the server."""
        await self.begun.wait()
        settings = self._settings()
        match self._mode:
            case "hand_over":
                await self._serve_the_rest(settings.drain_delay_s, settings.drain_timeout_s)
            case "leave":
                await self._report_not_ready(settings)
                self._server.stop_listening()
                await self._serve_the_rest(0.0, settings.drain_timeout_s)
            case "refuse" | "lost":
                await self._refuse(settings, self.before_close or partial(empty, listening))
        self._server.stop()

    async def _report_not_ready(self, settings: ServerConfig) -> None:
        self._gateway.admission.draining = self._server.draining = True
        if self._mode != "lost":
            _log.info("draining: not ready; closing in %g s", settings.drain_delay_s)
            await asyncio.sleep(settings.drain_delay_s)

    async def _serve_the_rest(self, quiet_s: float, timeout_s: float) -> None:
        """Answer what arrives on connections that are open, the last time on each.

        /readyz stays 200 on them after a hand-over: this machine is ready, because the new gateway
        is. quiet_s: seconds until idle connections are closed. timeout_s: from then on, the most
        that requests may take.
        """
        clock = asyncio.get_running_loop().time
        self._server.draining = True
        quiet = clock() + quiet_s
        while self._server.connections and clock() < quiet + timeout_s:
            if clock() >= quiet:
                await self._server.close_idle()
            await asyncio.sleep(CHECK_S)
        self._gateway.admission.draining = True
        self._gateway.admission.refuse()
        await self._finish(quiet + timeout_s - clock())

    async def _refuse(
        self, settings: ServerConfig, before_close: Callable[[], Awaitable[None]]
    ) -> None:
        await self._report_not_ready(settings)
        self._gateway.admission.refuse()
        closing = asyncio.create_task(self._close_idle())
        try:
            await self._finish(settings.drain_timeout_s)
            if self._mode == "refuse":
                await before_close()
        finally:
            closing.cancel()

    async def _finish(self, timeout_s: float) -> None:
        """Wait until every request and every copy has ended, but no longer than that."""
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await self._gateway.finished()
        except TimeoutError:
            in_flight = self._gateway.admission.in_flight
            _log.warning("cutting %d requests that outlasted drain_timeout_s", in_flight)

    async def _close_idle(self) -> None:
        """Close connections as they become idle, until cancelled."""
        while True:
            await self._server.close_idle()
            await asyncio.sleep(CHECK_S)
