"""Times that people write: Unix seconds, ISO 8601, or an age such as 15m."""

import re
from datetime import UTC, datetime
from typing import Final

_AGE: Final = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FARTHEST: Final = 253_402_300_800.0
"""The year 10000."""

EXPECTED: Final = (
    "expected an age such as 15m or 7d, Unix seconds, or a time such as 2027-01-31T00:00Z"
)


def moment(text: str, now: float) -> float:
    """Return Unix seconds. now: the same. Without a zone, a time is UTC.

    Raises ValueError with a sentence for the reader.
    """
    age = _AGE.fullmatch(text)
    if age is not None:
        return max(0.0, now - int(age["count"]) * _SECONDS[age["unit"]])
    try:
        found = float(text)
    except ValueError:
        found = _parsed(text)
    if not 0 <= found < _FARTHEST:
        raise ValueError(EXPECTED)
    return found


def _parsed(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(EXPECTED) from None
