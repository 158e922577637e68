"""Durations on the command line, such as 30m, 24h or 90d."""

import re
from typing import Final

import click

DURATION: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def duration(text: str) -> float:
    """Parse a duration; return seconds. Raises click.BadParameter."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration; write 30m, 24h or 90d")
    return int(found[1]) * _UNITS[found[2]]
