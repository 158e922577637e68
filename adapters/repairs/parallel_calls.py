"""`parallel_tool_calls: false` at a vendor that has no word for it.

Clients that extract data force one function and ask for one call: nothing is lost there. Otherwise
an answer may contain several calls, which the client asked not to get.
"""

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from adapters.repairs.rule import Aim, Loss, Repair, Repaired, every_model
from schemas.content_facts import ONE_CALL
from schemas.messages import FunctionTool, Message, ToolChoice
from schemas.requests import ChatRequest, Request


def _is_one(request: ChatRequest) -> bool:
    """Return whether the client forces one function."""
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice):
        return False
    return choice.mode == "named" or (choice.mode == "required" and len(request.tools or ()) == 1)


def _rule(
    name: str,
    about: str,
    loss: Loss,
    source: str,
    models: Callable[[str], bool],
    choice: ToolChoice,
) -> Repair:
    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest) or request.parallel_tool_calls is not False:
            return None
        if request.tools and (loss == "none") != _is_one(request):
            return None
        found = replace(request, parallel_tool_calls=UNSET)
        return Repaired(request=found, left_out=("parallel_tool_calls",))

    return Repair(
        name=name,
        about=about,
        source=source,
        facts=ONE_CALL,
        apply=apply,
        example=ChatRequest(
            "m",
            (Message(role="user", content="What is the weather?"),),
            tools=(FunctionTool(name="weather"),),
            tool_choice=choice,
            parallel_tool_calls=False,
        ),
        loss=loss,
        models=models,
    )


def parallel_calls(
    source: str, models: Callable[[str], bool] = every_model
) -> tuple[Repair, Repair]:
    """Return the rules: one for a forced function, and one for all other requests."""
    told = "leaves out `parallel_tool_calls: false`"
    forced, free = ToolChoice(mode="named", name="weather"), ToolChoice(mode="auto")
    return (
        _rule("one_call", f"{told} if one function is forced", "none", source, models, forced),
        _rule("parallel_calls", told, "constraint", source, models, free),
    )
