"""Reads when a limit is reset from an error's text, its fields and rate limit headers.

Most vendors send `retry-after` with a 429 (adapters/retry_after.py), some do not: OpenRouter writes
an epoch in milliseconds, in a header or in the headers of the vendor behind it, which are in the
body; OpenAI and Groq write `Please try again in 7.66s`; ChatGPT's plans write `resets_in_seconds`.
https://github.com/dirge-code/dirge/pull/719 https://github.com/everruns/everruns/pull/2280
https://developers.openai.com/api/docs/guides/rate-limits#rate-limits-in-headers
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, cast

from strowger_gateway.adapters.retry_after import LONGEST_S, date_of, duration, retry_after
from strowger_gateway.schemas.measured_json import NotJson, read_json

BUSY: Final = frozenset({429, 503, 529})
"""Statuses of answers that may say when to ask again."""

UNTIL_FULL_S: Final = 60.0
"""The longest wait, in seconds, by OpenAI's headers: they say when a limit is at its full size
again, which for requests per day is a day after requests have become possible."""

_SAID: Final = re.compile(
    r"(?:try again|retry)(?: your request)? (?:in|after):? ((?:[0-9]+(?:\.[0-9]+)? ?[a-z]+[ ,]*)+)",
    re.IGNORECASE,
)
_LONG: Final = 4000
"""Characters of a message that are searched."""

_IN_SECONDS: Final = ("resets_in_seconds", "retry_after", "retry_after_seconds")
_DEPTH: Final = 3
_EPOCH_MS, _EPOCH_S = 1e11, 1e9


def wait_of(status: int, headers: Mapping[str, str], body: bytes) -> float | None:
    """Return how long an answer asks to wait, in seconds up to LONGEST_S; `None` if it does not.

    status: of the answer, or of the error inside a 200. headers: by lower-case names.
    """
    wait = retry_after(headers)
    if wait is not None or status not in BUSY:
        return wait
    now = date_of(headers.get("date", ""))
    found = next(_in_body(_object(body), now, _DEPTH), None)
    if found is None:
        found = _in_headers(headers, now)
    return None if found is None else min(found, LONGEST_S)


def _object(body: bytes) -> dict[str, object]:
    try:
        value = read_json(body)
    except NotJson:
        return {"message": body[:_LONG].decode(errors="replace")}
    if isinstance(value, list) and value:
        value = cast("list[object]", value)[0]
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _in_body(fields: Mapping[str, object], now: datetime | None, depth: int) -> Iterator[float]:
    """Yield waits in seconds, those of explicit fields before one in the text."""
    for name in _IN_SECONDS:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            yield float(value)
    until = fields.get("resets_at")
    if isinstance(until, int | float) and (wait := _until(float(until), now)) is not None:
        yield wait
    inner = fields.get("headers")
    if isinstance(inner, dict):
        headers = cast("dict[str, object]", inner)
        texts = {name.lower(): str(value) for name, value in headers.items()}
        found = retry_after(texts)
        found = _in_headers(texts, now) if found is None else found
        if found is not None:
            yield found
    for name in ("error", "metadata") if depth else ():
        inner = fields.get(name)
        if isinstance(inner, dict):
            yield from _in_body(cast("dict[str, object]", inner), now, depth - 1)
    message = fields.get("message")
    if isinstance(message, str):
        said = _SAID.search(message[:_LONG])
        wait = None if said is None else duration(said[1].strip(" ,"))
        if wait:
            yield wait


def _in_headers(headers: Mapping[str, str], now: datetime | None) -> float | None:
    """Return the wait until all exhausted limits are reset."""
    waits: list[float] = []
    for kind in ("requests", "tokens"):
        wait = duration(headers.get(f"x-ratelimit-reset-{kind}", ""))
        if wait and _exhausted(headers, f"x-ratelimit-remaining-{kind}"):
            waits.append(min(wait, UNTIL_FULL_S))
    for prefix in ("x-ratelimit", "ratelimit"):
        reset = duration(headers.get(f"{prefix}-reset", ""))
        wait = None if reset is None else _until(reset, now)
        if wait and _exhausted(headers, f"{prefix}-remaining"):
            waits.append(wait)
    return max(waits, default=None)


def _exhausted(headers: Mapping[str, str], name: str) -> bool:
    return duration(headers.get(name, "0")) == 0


def _until(value: float, now: datetime | None) -> float | None:
    """Return the seconds until a time: epoch milliseconds, epoch seconds or seconds from now."""
    if value < _EPOCH_S:
        return value
    if now is None:
        return None
    at = value / 1000 if value >= _EPOCH_MS else value
    return max(0.0, at - now.timestamp()) or None
