"""Why a request does not count in its model's experiment: a word for programs, and a sentence."""

from typing import Literal

from msgspec import Struct

Code = Literal["rule", "paused", "unknown", "no_unit", "wrong_task"]
"""A `when` rule decided; the experiment was paused; its epoch was not known (yet); the request
names no unit; it is of a kind that cannot be told what a variant's `system` says."""

_WORDS: dict[Code, str] = {
    "rule": "a `when` rule decides",
    "paused": "the experiment is paused{reason}, and the control serves everyone",
    "unknown": "the store has not told yet how it stands, and the control serves everyone",
    "no_unit": "the request has no {by}, and the control serves it",
    "wrong_task": "only a conversation can be told what a variant's `system` says, and the control "
    "serves this",
}


class LeftOut(Struct, frozen=True, kw_only=True, gc=False):
    """words: without a full stop."""

    experiment: str
    code: Code
    words: str


def left_out(experiment: str, code: Code, *, by: str, reason: str = "") -> LeftOut:
    """by: what the arms are assigned to. reason: of a pause."""
    words = _WORDS[code].format(
        by=by.replace("_", " ").replace("header:", "header "),
        reason=f" ({reason})" if reason else "",
    )
    return LeftOut(experiment=experiment, code=code, words=words)
