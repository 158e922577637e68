"""Our HTTP/1.1 client: asyncio protocols directly over a C parser."""

from strowger_gateway.gateway.backends.upstream.wire.transport import WireTransport

__all__ = ["WireTransport"]
