"""The server of a connection, as the connection sees it."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from strowger_gateway.gateway.platform.eventloop.turn import Turn
from strowger_gateway.gateway.server.http1.application import Application, HotHandler
from strowger_gateway.gateway.server.http1.open_connections import OpenConnections
from strowger_gateway.gateway.server.http1.response_head import ResponseHeads


class ConnectionServer(Protocol):
    """What all connections of a process share.

    connections: those that are open. tasks: requests that run as ASGI.
    draining: each connection ends with its next answer, which says so.
    hot: path and handler of hot requests by target, as far as the path is fixed.
    """

    application: Application
    connections: OpenConnections
    draining: bool
    heads: ResponseHeads
    hot: Mapping[bytes, tuple[str, HotHandler]]
    tasks: set[asyncio.Task[None]]
    turn: Turn
