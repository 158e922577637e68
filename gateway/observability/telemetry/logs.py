"""The gateway's log messages: for people on a terminal, otherwise one JSON object per line."""

import logging
import os
import stat
import sys
from contextlib import suppress
from typing import Literal, TextIO

import msgspec

from strowger_gateway.gateway.config.schema.config import Logging

Style = Literal["json", "console"]
"""The values of `logging.format` except `auto`, which one of them replaces."""

_COLOURS = {"DEBUG": 2, "INFO": 36, "WARNING": 33, "ERROR": 31, "CRITICAL": 31}


def line_style(settings: Logging, stream: TextIO) -> Style:
    """Resolve `auto` for what is written to a stream: console on a terminal, else JSON."""
    if settings.format == "auto":
        return "console" if stream.isatty() else "json"
    return settings.format


def message_style(settings: Logging) -> Style:
    """Return the style of messages, which go to stderr; child processes inherit it."""
    return line_style(settings, sys.stderr)


def has_colours(stream: TextIO) -> bool:
    """True if what is written to a stream may have colours: on terminals that show them.

    FORCE_COLOR and NO_COLOR decide if they are not empty: https://force-color.org,
    https://no-color.org. TERM=dumb is a terminal that shows control sequences as text.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: int, *, colours: bool) -> str:
    """Return the text in a colour, a code of ECMA-48's SGR, if there are colours."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colours else text


def append_output() -> None:
    """Let stdout and stderr write at the end of their files, wherever that is.

    After `> FILE` in a shell they write where they last wrote, so a file that `logrotate` has
    copied and truncated would begin with a gap.
    """
    if sys.platform == "win32":
        return
    import fcntl

    for number in (1, 2):
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(number).st_mode):
                flags = fcntl.fcntl(number, fcntl.F_GETFL)
                fcntl.fcntl(number, fcntl.F_SETFL, flags | os.O_APPEND)


def configure_logging(settings: Logging) -> None:
    """Log to stderr; libraries log at level warning and above."""
    handler = logging.StreamHandler(sys.stderr)
    if message_style(settings) == "json":
        handler.setFormatter(_Json())
    else:
        handler.setFormatter(_Console(colours=has_colours(sys.stderr)))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    set_level(settings)


def set_level(settings: Logging) -> None:
    """Set the log level of the gateway's own loggers."""
    logging.getLogger("strowger").setLevel(settings.level.upper())


def readable(text: str) -> str:
    """Return a text that can be encoded: names of files may have bytes that are not Unicode.

    Such a byte becomes an escape, for example `\\udcff`.
    """
    return text.encode("utf-8", "backslashreplace").decode()


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": readable(record.getMessage()),
        }
        if record.exc_info:
            line["trace"] = readable(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class _Console(logging.Formatter):
    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        colour = _COLOURS.get(record.levelname, 0)
        text = painted(record.getMessage(), colour, colours=self._colours)
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text
