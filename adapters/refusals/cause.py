"""Decides what a vendor's error refuses, by the signs and by its status."""

import re
from collections.abc import Collection
from typing import Final

from strowger_gateway.adapters.refusals.account_signs import ABOUT_THE_ACCOUNT
from strowger_gateway.adapters.refusals.other_signs import (
    ABOUT_THE_MODEL,
    ABOUT_THE_REQUEST,
    RATE_LIMITS,
)
from strowger_gateway.adapters.refusals.sign import About
from strowger_gateway.schemas.errors import RefusalCause

SIGNS: Final = (*ABOUT_THE_REQUEST, *RATE_LIMITS, *ABOUT_THE_ACCOUNT, *ABOUT_THE_MODEL)
"""The first one that holds decides."""

BY_STATUS: Final[dict[int, RefusalCause]] = {
    401: "account",
    402: "account",
    403: "unclear",
    404: "unclear",
    405: "address",
    407: "account",
    410: "model",
    411: "address",
    421: "address",
    426: "address",
}
"""Without a sign. A 403 may be a filter's, and a 404 a file's that the client has named."""

_PATTERNS: Final = tuple(
    re.compile(sign.text, re.IGNORECASE | re.DOTALL) if sign.text else None for sign in SIGNS
)


def refusal_cause(
    status: int, words: Collection[str], text: str, param: str | None, *, inside: bool = False
) -> About | None:
    """Return what an error refuses; `None` if it is another kind of error.

    words: its code and type, in lower case. text: its message. param: the field that it names.
    inside: it is inside a 200, so that the status may be a guess.
    """
    names_a_field = param is not None and param != "model"
    for sign, pattern in zip(SIGNS, _PATTERNS, strict=True):
        if names_a_field and sign.about != "request":
            continue
        if sign.statuses and status not in sign.statuses and not inside:
            continue
        if sign.words and sign.words.isdisjoint(words):
            continue
        if pattern is None or pattern.match(text):
            return sign.about
    if names_a_field and status in (403, 404):
        return "request" if status == 403 else None
    if status == 404 and param == "model":
        return "model"
    return BY_STATUS.get(status)
