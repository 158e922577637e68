"""Why a request does not count in its model's experiment: a code and a sentence."""

from typing import Literal

from msgspec import Struct, field

ExclusionCode = Literal["rule", "paused", "unknown", "no_unit", "wrong_task", "prompt", "replay"]
"""rule: a `when` rule matches. paused: the experiment is paused. unknown: its epoch is not known
yet. no_unit: the request names no unit. wrong_task: a variant sets `system` or has a prompt, and
the request is not a chat. prompt: not every variant's prompt fits the request.
replay: the request asks for a variant."""

_WORDS: dict[ExclusionCode, str] = {
    "rule": "a `when` rule decides",
    "paused": "the experiment is paused{reason}, and the control serves everyone",
    "unknown": "the state of the experiment is not loaded from the store yet, and the control "
    "serves everyone",
    "no_unit": "the request has no {by}, and the control serves it",
    "wrong_task": "a variant sets `system` or has a prompt, which only a chat can carry, and the "
    "control serves this request",
    "prompt": "a variant's prompt does not fit this request{reason}, and the control serves it",
    "replay": "it is a replay, which asks for a variant{reason}",
}


class Exclusion(Struct, frozen=True, kw_only=True, gc=False):
    """Why one request is excluded from its experiment. reason: a sentence without its full stop."""

    experiment: str
    code: ExclusionCode
    reason: str = field(name="words")


def exclusion(experiment: str, code: ExclusionCode, *, by: str, reason: str = "") -> Exclusion:
    """Build the exclusion with its sentence.

    by: what arms are assigned to. reason: of a pause, or of a prompt that does not fit; the variant
    of a replay.
    """
    words = _WORDS[code].format(
        by=by.replace("_", " ").replace("header:", "header "),
        reason=f" ({reason})" if reason else "",
    )
    return Exclusion(experiment=experiment, code=code, reason=words)
