"""Options of every socket to a provider."""

import socket
from typing import Final

UNACKNOWLEDGED_S: Final = 25
"""Seconds without an acknowledgement, of what was sent or of a probe, until a connection is lost.

The system's own limit is a quarter of an hour for what was sent. A server acknowledges on arrival,
however long its answer takes. A server that does not read for as long with its buffers full counts
as lost, too. https://datatracker.ietf.org/doc/html/rfc5482
"""

PROBE_S: Final = 5
"""Seconds of silence before a probe, and between probes: four are lost before a connection is.

With TCP_USER_TIMEOUT, Linux counts seconds in place of TCP_KEEPCNT, so that a connection whose
first probe comes later than that would be lost with the first lost probe.
"""

SocketOptions = tuple[tuple[int, int, int], ...]


def _options() -> SocketOptions:
    """Return options: no delay for small segments, and how soon a dead connection is noticed.

    Keep-alive probes check silent connections: a model may think for minutes before its first byte,
    and NAT gateways drop a connection after as little as 350 s of silence, without notifying either
    side.
    """
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, value in (
        ("TCP_KEEPIDLE", PROBE_S),
        ("TCP_KEEPINTVL", PROBE_S),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_S * 1000),  # Linux's
    ):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return tuple(options)


SOCKET_OPTIONS = _options()
"""level, name and value each, for socket.setsockopt."""
