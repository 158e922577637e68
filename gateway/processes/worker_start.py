"""Starting a worker's process."""

import asyncio
import os
import socket
import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent.parent)
"""The folder of the packages."""


async def spawn(control: socket.socket, listener: socket.socket) -> asyncio.subprocess.Process:
    """A worker, which inherits both sockets, our output and nothing else. Raises OSError."""
    numbers = (control.fileno(), listener.fileno())
    inherited = os.environ.get("PYTHONPATH")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.processes.worker"),
        *("--control", str(numbers[0]), "--listener", str(numbers[1])),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=numbers,
        env={
            **os.environ,
            "PYTHONPATH": ROOT if not inherited else os.pathsep.join((ROOT, inherited)),
        },
    )
