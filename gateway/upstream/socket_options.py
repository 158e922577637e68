"""What every socket to a provider is told."""

import socket

SocketOptions = tuple[tuple[int, int, int], ...]


def _options() -> SocketOptions:
    """No delay for small segments, and probes on a silent connection.

    A model may think for minutes before its first byte; NAT gateways forget a connection after
    as little as 350 s of silence, and then neither side hears of it.
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
"""level, name and value, as socket.setsockopt takes them."""
