"""Close a listening socket without resetting a connection that the kernel has accepted.

The kernel completes handshakes by itself and keeps the connections in a queue until the process
accepts them. When the last process closes the socket, it resets what is in the queue, and what a
client has sent on it is lost. So new handshakes end first: a packet filter on the socket drops
their first packet, and the client's system sends it again a second later, to the next gateway or to
a closed port. Handshakes that have begun complete, and their connections are accepted.

https://www.kernel.org/doc/html/latest/networking/filter.html
"""

import array
import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Literal

LINGER_S: Final = 0.25
"""Seconds in which handshakes that have begun complete: a round trip around the world."""

Mode = Literal["refuse", "leave", "hand_over", "lost"]
"""Who answers what waits in the queue when a gateway ends.

refuse: this gateway, with 503, until its last request has ended. leave: its successor, which
systemd starts with the same socket. hand_over: its successor, which is serving already. lost: the
leader is gone, and its sockets with it.
"""

_SO_ATTACH_FILTER: Final = 26
_FLAGS_AT, _SYN = 13, 0x02
_DROP_SYN: Final = (
    (0x30, 0, 0, _FLAGS_AT),  # load the byte of the TCP header that has the flags
    (0x45, 0, 1, _SYN),  # without SYN: skip one
    (0x06, 0, 0, 0),  # drop the packet
    (0x06, 0, 0, 0xFFFFFFFF),  # keep it whole
)
"""A program of the classic BPF: code, jump if true, jump if false, operand."""


def stop_new_connections(listening: Sequence[socket.socket]) -> None:
    """Let no handshake begin on these sockets any more, in any process that holds them.

    Without effect on systems other than Linux, and on Unix sockets.
    """
    if sys.platform != "linux":
        return
    program = array.array("B", b"".join(struct.pack("=HBBI", *one) for one in _DROP_SYN))
    described = struct.pack("@HP", len(_DROP_SYN), program.buffer_info()[0])
    for one in listening:
        if one.family in (socket.AF_INET, socket.AF_INET6) and one.fileno() >= 0:
            with suppress(OSError):  # a sandbox without packet filters: some may be reset
                one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


async def empty(
    listening: Sequence[socket.socket], then: Callable[[], object] | None = None
) -> None:
    """Wait until nothing more arrives in the queues; go on accepting in the meantime.

    then: called after that.
    """
    stop_new_connections(listening)
    await asyncio.sleep(LINGER_S)
    if then is not None:
        then()
