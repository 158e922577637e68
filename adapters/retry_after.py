"""Reads from response headers how long a server asks the gateway to wait.

https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 86_400.0
"""Longer waits are capped: daily quotas reset after a day, and a server that sends a timestamp
instead of seconds (1893456000) would be excluded for as long as the gateway runs."""

_LONG = 256
"""Characters of a header field; longer ones are ignored."""
_DECIMAL = re.compile(r"[ \t]*[0-9]+(?:\.[0-9]*)?[ \t]*", re.ASCII)
_STEP = re.compile(r"[ \t,]*([0-9]+(?:\.[0-9]*)?)[ \t]*([a-z]+)", re.ASCII | re.IGNORECASE)
_UNITS = {
    word: seconds
    for seconds, words in (
        (0.001, "ms msec msecs millisecond milliseconds"),
        (1.0, "s sec secs second seconds"),
        (60.0, "m min mins minute minutes"),
        (3600.0, "h hr hrs hour hours"),
        (86_400.0, "d day days"),
    )
    for word in words.split()
}


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return seconds, 0 to LONGEST_S; `None` if the headers have none, or none that is readable.

    `retry-after-ms` takes precedence over `retry-after`. A date is relative to `now`, else to the
    answer's own `date` header, because adapters have no clock.
    """
    wait = _parse(headers, now)
    return None if wait is None else min(wait, LONGEST_S)


def _parse(headers: Mapping[str, str], now: datetime | None) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = duration(value)
    if seconds is not None:
        return seconds
    until, since = date_of(value), now or date_of(headers.get("date", ""))
    if until is None or since is None:
        return None
    return max(0.0, (until - since).total_seconds())


def _number(text: str) -> float | None:
    """Parse decimal digits with an optional fraction; reject `1e20`, `-3`, `inf` and `1_0`."""
    return float(text) if len(text) <= _LONG and _DECIMAL.fullmatch(text) else None


def duration(text: str) -> float | None:
    """Parse seconds, or numbers with units as `7s`, `1m30.5s`, `20ms` and `2 minutes`."""
    seconds = _number(text)
    if seconds is not None or len(text) > _LONG:
        return seconds
    total, place, text = 0.0, 0, text.strip()
    while place < len(text):
        step = _STEP.match(text, place)
        unit = None if step is None else _UNITS.get(step[2].lower())
        if step is None or unit is None:
            return None
        total += float(step[1]) * unit
        place = step.end()
    return total if place else None


def date_of(text: str) -> datetime | None:
    """Parse an HTTP date, else return `None`; a date without a zone is treated as GMT."""
    if len(text) > _LONG:
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
