"""Forward the stderr of an engine process to the gateway's log."""

import asyncio
import logging
from typing import Final

LONGEST: Final = 8192
"""Maximum bytes of a line; a longer one is split."""

OWN: Final = "engine: "
"""Prefix of the engine's own lines; others are libraries' warnings and tracebacks."""

_log = logging.getLogger("strowger.engine")


async def log_lines(stderr: asyncio.StreamReader, name: str) -> None:
    """Log one message per line until the process exits. name: the provider's."""
    held = b""
    while piece := await stderr.read(LONGEST):
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            _log_line(line, name)
        while len(held) >= LONGEST:
            _log_line(held[:LONGEST], name)
            held = held[LONGEST:]
    _log_line(held, name)


def _log_line(line: bytes, name: str) -> None:
    text = line.decode(errors="replace").rstrip()
    if text.startswith(OWN):
        _log.info("%s: %s", name, text.removeprefix(OWN))
    elif text:
        _log.warning("%s: %s", name, text)
