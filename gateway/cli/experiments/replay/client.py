"""The client with which a replay asks a running gateway."""

import asyncio
from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.http_client import CONNECT_S, LARGEST_BODY, Site
from strowger_gateway.gateway.experiments.replay.client import GatewayReply, NoReply, NotSent
from strowger_gateway.schemas.errors import GatewayError, UpstreamUnreachable

ANSWER_S: Final = 3_600.0
"""The gateway's own deadlines are shorter."""


class ReplayClient:
    """For use in one event loop; `aclose` it."""

    def __init__(self, address: Address, key: str) -> None:
        self._site = Site(address)
        self._key = key

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> GatewayReply:
        """See GatewayClient."""
        clock = asyncio.get_running_loop().time
        outbound = self._site.outbound(
            path, key=self._key, body=body, headers=tuple(headers.items())
        )
        began = clock()
        try:
            reply = await self._site.transport.exchange(
                outbound, connect_by=began + CONNECT_S, head_by=began + ANSWER_S
            )
            try:
                data = await reply.body(began + ANSWER_S, LARGEST_BODY)
            finally:
                await reply.aclose()
        except UpstreamUnreachable as exc:
            raise NotSent(f"cannot reach {self._site.url}: {exc.message}") from exc
        except GatewayError as exc:
            raise NoReply(f"{self._site.url}: {exc.message}") from exc
        return GatewayReply(
            status=reply.status, headers=reply.headers, data=data, ms=1000 * (clock() - began)
        )

    async def aclose(self) -> None:
        await self._site.transport.aclose()
