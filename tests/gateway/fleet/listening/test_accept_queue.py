"""A listening socket closes without resetting a connection that the kernel has accepted."""

import asyncio
import socket
import sys
from contextlib import suppress

import pytest

from strowger_gateway.gateway.fleet.listening.accept_queue import empty, stop_new_connections

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="packet filters are Linux's"),
]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_what_has_connected_is_kept_and_what_comes_later_is_for_the_next_gateway(
    host: str,
) -> None:
    """A handshake that is not answered is tried again after a second, by the client's system."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    old = socket.create_server((host, 0), family=family)
    port = old.getsockname()[1]
    early = [socket.create_connection((host, port)) for _ in range(3)]
    for one in early:
        one.sendall(b"hello")
    stop_new_connections([old])

    late = socket.socket(family)
    late.setblocking(False)
    connecting = asyncio.create_task(loop.sock_connect(late, (host, port)))
    await empty([old])
    waited = not connecting.done()
    accepted = [old.accept()[0] for _ in early]
    old.setblocking(False)
    with suppress(BlockingIOError):
        accepted.append(old.accept()[0])
    old.close()
    new = socket.create_server((host, port), family=family)
    await asyncio.wait_for(connecting, 60)
    served, _ = new.accept()

    assert waited
    assert [one.recv(5) for one in accepted] == [b"hello"] * 3
    for one in (*early, *accepted, late, served, new):
        one.close()
