"""Rules of Claude's sampling: what a model does not take, alone, together, or while it thinks."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.anthropic.asked_thinking import asked
from strowger_gateway.adapters.anthropic.claude_models import (
    claude,
    refuses_sampling,
    refuses_two_samplings,
)
from strowger_gateway.adapters.repairs.rule import Aim, Loss, Repair, Repaired
from strowger_gateway.schemas.content_facts import SAMPLED
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.sampling import Sampling

_DEFAULTS: Final[Mapping[str, float]] = {"temperature": 1.0, "top_p": 1.0}
_LEAST_TOP_P: Final = 0.95
"""While the model thinks.
https://platform.claude.com/docs/en/build-with-claude/extended-thinking#feature-compatibility"""


def _refused(request: ChatRequest, model: str) -> Sequence[str]:
    """Return the parameters that the model refuses in this request."""
    given = request.sampling
    sent = [name for name in ("temperature", "top_p", "top_k") if _value(given, name) is not None]
    if refuses_sampling(model):
        return sent
    if asked(request).thinks:
        top_p, temperature = _value(given, "top_p"), _value(given, "temperature")
        fine = {"top_p": (top_p or 0) >= _LEAST_TOP_P, "temperature": temperature == 1}
        refused = [name for name in sent if not fine.get(name)]
        if refuses_two_samplings(model) and {*fine} <= {*sent} - {*refused}:
            refused.append("temperature")  # 1, the default
        return refused
    if refuses_two_samplings(model) and {"temperature", "top_p"} <= set(sent):
        return ["temperature" if given.temperature == 1 and given.top_p != 1 else "top_p"]
    return ()


def _value(given: Sampling, name: str) -> float | None:
    value: float | None | UnsetType = getattr(given, name)
    return None if isinstance(value, UnsetType) else value


def _rule(name: str, about: str, loss: Loss, example: Sampling, *, effect: bool) -> Repair:
    def apply(request: Request, aim: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        given = request.sampling
        names = [
            one
            for one in _refused(request, aim.model)
            if (_value(given, one) != _DEFAULTS.get(one)) is effect
        ]
        if not names:
            return None
        left = replace(given, **dict.fromkeys(names, UNSET))
        return Repaired(request=replace(request, sampling=left), left_out=tuple(names))

    return Repair(
        name=name,
        about=about,
        source="https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-7",
        facts=SAMPLED,
        apply=apply,
        example=ChatRequest("m", (Message(role="user", content="Hello"),), example),
        example_model="claude-opus-4-8",
        loss=loss,
        models=lambda model: claude(model) is not None,
        light=loss == "none",
    )


def _within_one(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    given = request.sampling
    if (_value(given, "temperature") or 0) <= 1:
        return None
    left = replace(given, temperature=1.0)
    return Repaired(request=replace(request, sampling=left), changed=("temperature",))


SAMPLING_REPAIRS: Final = (
    Repair(
        name="temperature_limit",
        about="sends a temperature over 1 as 1",
        source="https://docs.anthropic.com/en/api/messages#body-temperature",
        facts=SAMPLED,
        apply=_within_one,
        example=ChatRequest(
            "m", (Message(role="user", content="Hello"),), Sampling(temperature=1.5)
        ),
        loss="constraint",
    ),
    _rule(
        "default_sampling",
        "leaves out sampling without effect",
        "none",
        Sampling(temperature=1.0),
        effect=False,
    ),
    _rule(
        "fixed_sampling",
        "leaves out sampling that the model refuses, or refuses while it thinks",
        "constraint",
        Sampling(temperature=0.2),
        effect=True,
    ),
)
"""Temperature and top_p together: https://github.com/aws-samples/bedrock-chat/pull/979"""
