"""Read the operator's text files: bounded in size, and in time for pipes."""

import os
import select
import stat
from pathlib import Path

LARGEST = 2 * 1024 * 1024
"""Bytes of one file. A configuration with 10,000 client keys takes half of it."""

PIPE_S = 5.0
"""Timeout of a read from a pipe: a blocking read without a writer would never return."""


class TooLarge(ValueError):
    """The file is larger than LARGEST."""


def read_text(path: Path) -> str:
    """Read the file as UTF-8.

    Raises OSError, TooLarge, and UnicodeDecodeError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            data = _from_pipe(fd)
        else:
            os.set_blocking(fd, True)
            data = _whole(fd)
    finally:
        os.close(fd)
    if len(data) > LARGEST:
        raise TooLarge(f"{path} is larger than {LARGEST} bytes")
    return data.decode()


def _whole(fd: int) -> bytes:
    data = bytearray()
    while len(data) <= LARGEST and (piece := os.read(fd, LARGEST + 1 - len(data))):
        data += piece
    return bytes(data)


def _from_pipe(fd: int) -> bytes:
    data = bytearray()
    waiting = select.poll()
    waiting.register(fd, select.POLLIN | select.POLLHUP)
    while len(data) <= LARGEST:
        if not waiting.poll(PIPE_S * 1000):
            raise TimeoutError(None, f"no data from the pipe for {PIPE_S:g} s")
        piece = os.read(fd, LARGEST + 1 - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)
