"""Why a backend is down: the last failure, without what clients wrote and without keys.

An error of a vendor may quote the request. Clients' texts belong in no log by default, so a message
that shares some words in a row with the request is left out, and its code alone remains.
"""

import re
from typing import Final

import msgspec

from strowger_gateway.schemas.errors import GatewayError

LONGEST: Final = 240
"""Characters of a message."""

_WORDS: Final = 3
"""Words in a row that also occur in the request: the message may quote it."""

_SEARCHED: Final = 1_000_000
"""Bytes of a request that is searched; an error about a larger one is shown by its code."""

_KEY = re.compile(r"[\w+/=*-]*[\d*][\w+/=*-]{15,}|\b[A-Za-z]{2,4}-[\w*-]{12,}")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def cause_of(failing_on: tuple[GatewayError, object] | None) -> tuple[str, str]:
    """Return code and message. failing_on: the error, and the request if a client sent it."""
    if failing_on is None:
        return "", ""
    error, request = failing_on
    message = _SPACE.sub(" ", error.logged[: 2 * LONGEST]).strip()
    if request is not None and _may_quote(message, request):
        return error.code, ""
    message = _KEY.sub("…", message)
    return error.code, message if len(message) <= LONGEST else message[: LONGEST - 1] + "…"


def _may_quote(message: str, request: object) -> bool:
    """Whether the message repeats words of the request, or the request is too large to know."""
    try:
        text = msgspec.json.encode(request, enc_hook=_nothing)
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError):
        return True
    if len(text) > _SEARCHED:
        return True
    known = " ".join(_words(text.decode("utf-8", "replace")))
    words = _words(message)
    if len(words) < _WORDS:
        return any(len(word) >= 12 and word in known for word in words)
    return any(
        " ".join(words[place : place + _WORDS]) in known for place in range(len(words) - _WORDS + 1)
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower().replace("\\n", " "))


def _nothing(value: object) -> None:
    """Encode what has no JSON, such as the bytes of images, as null."""
