"""Start a worker process."""

import asyncio
import socket
import sys

from gateway.child_environment import child_environment
from gateway.listening.listening_socket import Listener


async def spawn(control: socket.socket, listener: Listener) -> asyncio.subprocess.Process:
    """Start a worker, which inherits the sockets and our output, nothing else. Raises OSError."""
    numbers = (control.fileno(), *(one.fileno() for one in listener.sockets))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.processes.worker"),
        *map(str, numbers),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=numbers,
        env=child_environment(),
    )
