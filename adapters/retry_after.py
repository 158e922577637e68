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
    seconds = _number(value)
    if seconds is not None:
        return seconds
    until, since = _date(value), now or _date(headers.get("date", ""))
    if until is None or since is None:
        return None
    return max(0.0, (until - since).total_seconds())


def _number(text: str) -> float | None:
    """Parse decimal digits with an optional fraction; reject `1e20`, `-3`, `inf` and `1_0`."""
    return float(text) if len(text) <= _LONG and _DECIMAL.fullmatch(text) else None


def _date(text: str) -> datetime | None:
    """Parse an HTTP date, else return `None`; a date without a zone is treated as GMT."""
    if len(text) > _LONG:
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
