"""Read the gauges of engines, over connections as gateways have them."""

import asyncio
from collections.abc import Collection, Mapping

from strowger_gateway.gateway.backends.engines.link.places import TcpPlace
from strowger_gateway.gateway.backends.placement.scaler import EngineLoad
from strowger_gateway.gateway.backends.upstream.engine_link import EngineLink
from strowger_gateway.gateway.config.schema.engines import EngineTls
from strowger_gateway.local_engine.protocol.address import parse_address
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls, TlsPaths
from strowger_gateway.schemas.errors import UpstreamLost

TIMEOUT_S = 5.0
"""To connect and to answer; an engine answers between two steps."""


class Gauges:
    """One connection to each engine. faults: why an engine cannot be read, by address."""

    def __init__(self, tls: EngineTls) -> None:
        """Raises InvalidConfig if the certificates cannot be used."""
        self._tls = MutualTls(TlsPaths(cert=tls.cert, key=tls.key, ca=tls.ca), server=False)
        self._server_name = tls.server_name
        self._links: dict[str, EngineLink] = {}
        self.faults: dict[str, str] = {}

    async def read(self, addresses: Collection[str]) -> Mapping[str, EngineLoad]:
        """Return the loads of the engines that answer, and forget all others."""
        for address in self._links.keys() - set(addresses):
            self._links.pop(address).close()
        self.faults = {address: why for address, why in self.faults.items() if address in addresses}
        asked = list(addresses)
        found = await asyncio.gather(*(self._load(address) for address in asked))
        return {
            address: load for address, load in zip(asked, found, strict=True) if load is not None
        }

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    async def _load(self, address: str) -> EngineLoad | None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                link = self._links.get(address) or await self._connected(address)
                reply = await link.measured()
        except (OSError, UpstreamLost) as exc:
            self.faults.setdefault(address, str(exc) or "no answer in time")
            if (lost := self._links.pop(address, None)) is not None:
                lost.close()
            return None
        if not link.alive:
            self.faults[address] = "it is ending"
            return None
        self.faults.pop(address, None)
        models = reply.stats.values()
        return EngineLoad(
            running=sum(one.running for one in models), waiting=sum(one.waiting for one in models)
        )

    async def _connected(self, address: str) -> EngineLink:
        """Raises OSError or UpstreamLost."""
        place = TcpPlace(parse_address(address), self._tls, self._server_name)
        link = EngineLink(address)
        try:
            await place.open(lambda: link)
            await link.ready
        except BaseException as exc:
            link.give_up()
            known = exc if isinstance(exc, OSError) else link.error
            fault = place.fault(known, link.fault)
            if fault is not None:
                self.faults[address] = fault.detail
            raise
        self._links[address] = link
        return link
