"""What a run asks of the gateway, and what can come of it."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class GatewayReply(Struct, frozen=True, kw_only=True):
    """A response. headers: names in lower case. ms: until it was whole."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    ms: float


class NotSent(Exception):
    """The gateway cannot be reached: nothing was sent."""


class NoReply(Exception):
    """The request was sent, and what came of it is unknown."""


class GatewayClient(Protocol):
    """A client of a running gateway with an API key."""

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> GatewayReply:
        """POST JSON. Raises NotSent, NoReply."""
        ...
