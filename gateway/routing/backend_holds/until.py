"""When a hold ends, as operators write it."""

import re
from datetime import UTC, datetime
from typing import Final

from strowger_gateway.schemas.errors import InvalidRequest

LONGEST_S: Final = 10 * 366 * 86_400.0
"""A hold may not end later than this many seconds from now: it is a slip, such as milliseconds."""

_AHEAD: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def ends_at(text: str, now: float) -> float | None:
    """Return Unix seconds, or `None` for "". now: Unix seconds.

    text: `30m`, `2h` or `3d` from now, ISO 8601 (without an offset: UTC), or Unix seconds. Raises
    InvalidRequest for anything else, and for a time that has passed.
    """
    text = text.strip()
    if not text:
        return None
    if (found := _AHEAD.fullmatch(text)) is not None:
        at = now + int(found[1]) * _UNITS[found[2]]
    else:
        at = _instant(text)
    if not now < at <= now + LONGEST_S:
        when = "has passed" if at <= now else "is more than ten years away"
        raise InvalidRequest(
            f"until: {text!r} {when}; write 30m, 2h or 3d, counted from now", param="until"
        )
    return at


def _instant(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as exc:
        raise InvalidRequest(
            f"until: {text!r} is not a time; write 30m, 2h or 3d from now, 2026-12-24T18:00:00Z, "
            "or Unix seconds",
            param="until",
        ) from exc
