"""A balancer of connections on loopback that obeys readiness, like a Kubernetes Service."""

import asyncio
from contextlib import suppress

import httpx
from msgspec import Struct

PROBE_EVERY_S = 0.1
"""As often as the readiness probe; a gateway's drain_delay_s has to be several times as long."""


class Target(Struct, kw_only=True, eq=False):
    """A gateway. ready: as the last probe found it."""

    url: str
    ready: bool = False

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0


class Balancer:
    """Gives each new connection to the next ready gateway. refused: connections without one."""

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.refused = 0
        self.given: dict[str, int] = {}
        self._turn = 0

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)

    async def probe(self) -> None:
        """Ask every gateway for its readiness, over and over. Runs until it is cancelled."""
        async with httpx.AsyncClient(timeout=60) as client:
            while True:
                for target in tuple(self.targets):
                    target.ready = await self._is_ready(client, target)
                await asyncio.sleep(PROBE_EVERY_S)

    @staticmethod
    async def _is_ready(client: httpx.AsyncClient, target: Target) -> bool:
        try:
            return (await client.get(f"{target.url}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [target for target in self.targets if target.ready]
        if not ready:
            self.refused += 1
            writer.transport.abort()
            return
        self._turn += 1
        target = ready[self._turn % len(ready)]
        self.given[target.url] = self.given.get(target.url, 0) + 1
        try:
            there, back = await asyncio.open_connection("127.0.0.1", target.port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pump(reader, back), _pump(there, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until one side ends, and pass the end on."""
    with suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()
