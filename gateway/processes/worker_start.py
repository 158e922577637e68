"""Start a worker process."""

import asyncio
import os
import socket
import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent.parent)
"""The folder that contains the packages."""


async def spawn(control: socket.socket, listener: socket.socket) -> asyncio.subprocess.Process:
    """Start a worker, which inherits both sockets and our output, nothing else. Raises OSError."""
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
