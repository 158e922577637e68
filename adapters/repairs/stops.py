"""Stop strings that a vendor does not take: the gateway ends the answer at them itself.

Editors send nine or twelve, most vendors take four or five, and models that reason refuse all.
"""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, Undo, every_model
from strowger_gateway.schemas.content_facts import STOPS
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Request,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.task import Unsampled


def stops(
    source: str,
    most: int = 0,
    *,
    name: str = "stop",
    models: Callable[[str], bool] = every_model,
) -> Repair:
    """Return the rule for a vendor that takes so many strings, and for models that take fewer.

    The vendor gets the first ones, so that it ends most answers itself; the gateway looks for all.
    """

    def apply(request: Request, _: Aim) -> Repaired | None:
        return _held(request, most)

    about = "ends the answer at stop strings in the gateway"
    return Repair(
        name=name,
        about=f"{about}, and sends {most}" if most else f"{about}, because the model takes none",
        source=source,
        facts=STOPS,
        apply=apply,
        example=_EXAMPLE,
        models=models,
        light=True,
    )


def _held(request: Request, most: int) -> Repaired | None:
    if isinstance(request, Unsampled):
        return None
    sampling = request.sampling
    if sampling.stop is UNSET or len(sampling.stop) <= most:
        return None
    if isinstance(request, CompletionRequest) and (request.echo or request.append_suffix):
        return None  # the answer has text that is not the model's
    left = replace(sampling, stop=sampling.stop[:most] or UNSET)
    return Repaired(
        request=replace(request, sampling=left), changed=("stop",), undo=Undo(stops=sampling.stop)
    )


def blank_stops(source: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a vendor that takes no stop string of white space alone."""
    return Repair(
        name="blank_stop",
        about="ends the answer at stop strings of white space in the gateway",
        source=source,
        facts=STOPS,
        apply=_without_blanks,
        example=ChatRequest("m", _EXAMPLE.messages, Sampling(stop=("\n\n", "END"))),
        models=models,
        light=True,
    )


def _without_blanks(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or request.sampling.stop is UNSET:
        return None
    wanted = request.sampling.stop
    sent = tuple([one for one in wanted if one.strip()])
    if len(sent) == len(wanted):
        return None
    left = replace(request.sampling, stop=sent or UNSET)
    found = replace(request, sampling=left)
    stops = tuple([one for one in wanted if one])
    undo = Undo(stops=stops) if stops else None
    return Repaired(request=found, changed=("stop",), undo=undo)


_EXAMPLE: Final = ChatRequest(
    "m",
    (Message(role="user", content="Hello"),),
    Sampling(stop=tuple(f"<stop {number}>" for number in range(20))),
)
