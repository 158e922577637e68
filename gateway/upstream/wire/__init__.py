"""Our HTTP/1.1 client: asyncio protocols, a C parser, and nothing in between."""

from gateway.upstream.wire.transport import WireTransport

__all__ = ["WireTransport"]
