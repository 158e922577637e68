"""Why a request does not count in its model's experiment: a word for programs, and a sentence."""

from typing import Literal

from msgspec import Struct, field

ExclusionCode = Literal["rule", "paused", "unknown", "no_unit", "wrong_task"]
"""A `when` rule decided; the experiment was paused; its epoch was not known (yet); the request
names no unit; it is of a kind that cannot be told what a variant's `system` says."""

_WORDS: dict[ExclusionCode, str] = {
    "rule": "a `when` rule decides",
    "paused": "the experiment is paused{reason}, and the control serves everyone",
    "unknown": "the store has not told yet how it stands, and the control serves everyone",
    "no_unit": "the request has no {by}, and the control serves it",
    "wrong_task": "only a conversation can be told what a variant's `system` says, and the control "
    "serves this",
}


class Exclusion(Struct, frozen=True, kw_only=True, gc=False):
    """Why one request is excluded from its experiment. reason: a sentence without its full stop."""

    experiment: str
    code: ExclusionCode
    reason: str = field(name="words")


def exclusion(experiment: str, code: ExclusionCode, *, by: str, reason: str = "") -> Exclusion:
    """by: what the arms are assigned to. reason: of a pause."""
    words = _WORDS[code].format(
        by=by.replace("_", " ").replace("header:", "header "),
        reason=f" ({reason})" if reason else "",
    )
    return Exclusion(experiment=experiment, code=code, reason=words)
