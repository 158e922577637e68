"""The gateway's log messages: coloured on a terminal, otherwise one JSON object per line."""

import logging
import sys
from typing import Literal

import msgspec

from gateway.config.schema.config import Logging

Style = Literal["json", "text"]

_COLOURS = {"DEBUG": 2, "INFO": 36, "WARNING": 33, "ERROR": 31, "CRITICAL": 31}


def line_style(settings: Logging) -> Style:
    """Resolve `auto`: text if stdout is a terminal, else JSON."""
    if settings.format == "auto":
        return "text" if sys.stdout.isatty() else "json"
    return "json" if settings.format == "json" else "text"


def configure_logging(settings: Logging, style: Style) -> None:
    """Log to stderr in one style; libraries log at level warning and above."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
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


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"\x1b[{_COLOURS.get(record.levelname, 0)}m{record.getMessage()}\x1b[0m"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text
