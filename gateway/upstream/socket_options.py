"""Options of every socket to a provider."""

import socket

SocketOptions = tuple[tuple[int, int, int], ...]


def _options() -> SocketOptions:
    """Return options: no delay for small segments, and keep-alive probes on silent connections.

    A model may think for minutes before its first byte; NAT gateways drop a connection after
    as little as 350 s of silence, without notifying either side.
    """
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return tuple(options)


SOCKET_OPTIONS = _options()
"""level, name and value each, for socket.setsockopt."""
