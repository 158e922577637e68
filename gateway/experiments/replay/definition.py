"""What a run of a replay is: its arms, prompts, judge and checks, which stay as they are."""

from typing import Final

import msgspec
from msgspec import Struct

REQUEST_ID: Final = "strowger-replay-"
"""How the `x-request-id` of a replay's requests begins: its own payloads are never replayed."""


class ReplayArm(Struct, frozen=True, kw_only=True):
    """One side of the comparison.

    name:   a variant of the run's experiment, or a model.
    model:  what requests name. variant: EXPERIMENT/VARIANT for the header; "" for a plain model.
    """

    name: str
    model: str
    variant: str = ""


class Definition(Struct, frozen=True, kw_only=True):
    """All that decides what a run measures. Another command may continue it only with the same.

    control, treatment: the arms.
    source:  `payloads`, or the name of a file. digest: of the file, in hexadecimal.
    model:   whose payloads are replayed; "" for a file.
    since, until: as the command has them: a duration before its start, or "".
    sample, per_unit: pairs at most, and of each unit.
    judge:   a model; "" for checks alone. rubric: what it judges by.
    answer_tokens, judge_tokens: the most of an answer whose request does not say it, and of a
             judgement.
    test_command: decides about an answer; "" for none. test_timeout_s: seconds for it.
    alpha:   probability that the interval of the win rate ever misses.
    """

    control: ReplayArm
    treatment: ReplayArm
    source: str
    digest: str = ""
    model: str = ""
    since: str = ""
    until: str = ""
    sample: int
    per_unit: int
    judge: str = ""
    rubric: str = ""
    answer_tokens: int
    judge_tokens: int
    test_command: str = ""
    test_timeout_s: float = 10.0
    alpha: float = 0.05

    @property
    def arms(self) -> tuple[ReplayArm, ReplayArm]:
        return self.control, self.treatment


_OPTIONS: Final = {
    "control": "--arms",
    "treatment": "--arms",
    "source": "--from",
    "digest": "the content of the file",
    "model": "the experiment's model",
    "test_timeout_s": "--test-timeout",
}


def differences(known: Definition, given: Definition) -> tuple[str, ...]:
    """Name what differs between a run and a command that would continue it."""
    found: list[str] = []
    for name in Definition.__struct_fields__:
        old, new = getattr(known, name), getattr(given, name)
        if old != new:
            option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
            found.append(f"{option}: is {_shown(new)}, was {_shown(old)}")
    return tuple(found)


def _shown(value: object) -> str:
    if isinstance(value, ReplayArm):
        return value.name
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return (text if len(text) <= 60 else f"{text[:59]}…") or "not given"
