"""What an engine process writes on stderr, as messages of the gateway's log."""

import asyncio
import logging
from typing import Final

LONGEST: Final = 8192
"""Bytes of a line; a longer one is cut into several."""

OWN: Final = "engine: "
"""How the engine's own lines begin; others are libraries' warnings and tracebacks."""

_log = logging.getLogger("strowger.engine")


async def log_lines(stderr: asyncio.StreamReader, name: str) -> None:
    """Until the process ends: one message for each line. name: the provider's."""
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
