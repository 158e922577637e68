"""Start a worker process."""

import asyncio
import socket
import sys

from gateway.child_environment import child_environment


async def spawn(control: socket.socket, listener: socket.socket) -> asyncio.subprocess.Process:
    """Start a worker, which inherits both sockets and our output, nothing else. Raises OSError."""
    numbers = (control.fileno(), listener.fileno())
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.processes.worker"),
        *map(str, numbers),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=numbers,
        env=child_environment(),
    )
