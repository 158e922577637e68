"""Ports for servers that bind them later, or a second time: no other test gets them meanwhile.

The kernel assigns ports of its ephemeral range to connections and to binds of port 0. It never
assigns ports below that range, so the test processes reserve those with file locks.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

FIRST: Final = 20_000
LAST: Final = 32_000
"""Below Linux's ephemeral range, which begins at 32768."""

_locked: Final[list[int]] = []
"""Descriptors of the files; the locks end with the process."""


def reserved_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses and that is this process's until it ends."""
    folder = Path(tempfile.gettempdir()) / f"strowger-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.Random().sample(range(FIRST, LAST), LAST - FIRST):
        file = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            os.close(file)
        else:
            _locked.append(file)
            return port
    raise RuntimeError(f"all ports from {FIRST} to {LAST} are in use")
