"""End an engine without cutting answers: gateways stop sending, and open requests finish."""

import asyncio

from strowger_gateway.local_engine.listening.tcp_listener import TcpListener

_POLL_S = 0.05


async def drained(listener: TcpListener, within_s: float) -> None:
    """Return when no request is left, at the latest after `within_s`. Call it after `close`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    for connection in tuple(listener.connections.values()):
        connection.leave()
    while loop.time() < until and any(one.busy for one in listener.connections.values()):  # noqa: ASYNC110  polled once, at the end of the process
        await asyncio.sleep(_POLL_S)
