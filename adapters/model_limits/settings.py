"""Settings that a model does not take: omitted, or sent as the nearest value that it takes.

Models that reason draw their tokens in one way, and know some degrees of effort only. Their vendors
refuse any other setting with a 400, although clients send the same settings to all models.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Loss, Repair, Repaired
from strowger_gateway.schemas.content_facts import EFFORT, SAMPLED, SAMPLING
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.sampling import Sampling

LADDER: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Degrees of effort, from the least."""

_STEPS: Final[Mapping[str, int]] = {
    **{one: step for step, one in enumerate(LADDER)},
    "default": LADDER.index("medium"),
}
"""Their places; servers with one switch call the other place of it `default`."""

WITHOUT_EFFECT: Final[Mapping[str, object]] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logit_bias": {},
    "logprobs": False,
}
"""Values that change nothing for a model that draws tokens in one way."""

Refused = Callable[[ChatRequest, str], Sequence[str]]
"""Returns the sampling parameters that a model, by its name there, refuses in a request."""


def fixed_sampling(
    source: str, refused: Refused, models: Callable[[str], bool], example: str
) -> tuple[Repair, Repair]:
    """Return the rules for models that take only some sampling parameters, or none.

    Values without effect are omitted by a rule of their own, because nothing is lost. example: the
    name of such a model.
    """

    def omits(name: str, about: str, loss: Loss, *, effect: bool) -> Repair:
        def apply(request: Request, aim: Aim) -> Repaired | None:
            if not isinstance(request, ChatRequest):
                return None
            return _without(request, refused(request, aim.model), effect=effect)

        return Repair(
            name=name,
            about=about,
            source=source,
            facts=SAMPLED,
            apply=apply,
            example=_SAMPLED if effect else _DEFAULTS,
            example_model=example,
            loss=loss,
            models=models,
            light=loss == "none",
        )

    return (
        omits("default_sampling", "leaves out sampling without effect", "none", effect=False),
        omits(
            "fixed_sampling",
            "leaves out sampling that the model refuses, because it draws tokens in one way",
            "constraint",
            effect=True,
        ),
    )


def _without(request: ChatRequest, names: Sequence[str], *, effect: bool) -> Repaired | None:
    sampling = request.sampling
    found = [
        name
        for name in names
        if getattr(sampling, name) is not UNSET
        and (name not in WITHOUT_EFFECT or getattr(sampling, name) != WITHOUT_EFFECT[name])
        is effect
    ]
    if not found:
        return None
    left = replace(sampling, **dict.fromkeys(found, UNSET))
    return Repaired(request=replace(request, sampling=left), left_out=tuple(found))


def least_tokens(source: str, least: int) -> Repair:
    """Return the rule for a vendor that refuses smaller limits of an answer."""

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        limit = request.sampling.max_tokens
        if not isinstance(limit, int) or limit >= least:
            return None
        sampling = replace(request.sampling, max_tokens=least)
        return Repaired(request=replace(request, sampling=sampling), changed=("max_tokens",))

    return Repair(
        name="least_tokens",
        about=f"raises the limit of an answer to {least} tokens",
        source=source,
        facts=SAMPLING,
        apply=apply,
        example=ChatRequest("m", (Message(role="user", content="Hello"),), Sampling(max_tokens=1)),
        loss="constraint",
    )


def effort_values(source: str, of: Callable[[str], Sequence[str] | None], example: str) -> Repair:
    """Return the rule for models that know only some degrees of effort.

    of: returns a model's degrees, in the order of `LADDER`; () if it takes none, `None` if they are
    unknown. A degree that it lacks becomes the nearest, the higher of two. example: the name of a
    model without `minimal`.
    """

    def apply(request: Request, aim: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        effort, known = request.reasoning_effort, of(aim.model)
        if isinstance(effort, UnsetType) or effort not in LADDER:
            return None
        if known is None or effort in known:
            return None
        if not known:
            return without_effort(request)
        nearest = min(known, key=lambda one: (_steps(one, effort), -_STEPS[one]))
        return Repaired(
            request=replace(request, reasoning_effort=nearest), changed=("reasoning_effort",)
        )

    return Repair(
        name="effort",
        about="sends the nearest degree of effort that the model knows, or none",
        source=source,
        facts=EFFORT,
        apply=apply,
        example=_EFFORT,
        example_model=example,
        loss="hint",
        models=lambda model: of(model) is not None,
        light=True,
    )


def without_effort(request: ChatRequest) -> Repaired:
    """Return the request without its degree of effort."""
    return Repaired(
        request=replace(request, reasoning_effort=UNSET), left_out=("reasoning_effort",)
    )


def _steps(one: str, other: str) -> int:
    return abs(_STEPS[one] - _STEPS[other])


_USER: Final = (Message(role="user", content="Hello"),)
_DEFAULTS: Final = ChatRequest("m", _USER, Sampling(presence_penalty=0.0, frequency_penalty=0.0))
_SAMPLED: Final = ChatRequest("m", _USER, Sampling(top_p=0.5, frequency_penalty=0.5))
_EFFORT: Final = ChatRequest("m", _USER, reasoning_effort="minimal")


def efforts_to_high(source: str) -> Repair:
    """Return the rule for a server that knows the degrees of effort up to `high`."""
    known = LADDER[: LADDER.index("high") + 1]
    hello = (Message(role="user", content="Hello"),)
    rule = effort_values(source, lambda _: known, "model-1")
    return replace(rule, example=ChatRequest("m", hello, reasoning_effort="max"))
