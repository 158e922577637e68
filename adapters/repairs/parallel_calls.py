"""`parallel_tool_calls: false` at a vendor that has no word for it.

Clients that extract data force one function and ask for one call. Of an answer with several calls
the client gets the first: the model sees its result, and makes the others in its next answer.
"""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, Undo, every_model
from strowger_gateway.schemas.content_facts import ONE_CALL
from strowger_gateway.schemas.messages import FunctionTool, Message, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest, Request

_UNDO: Final = Undo(one_call=True)


def _with_any_number(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or request.parallel_tool_calls is not False:
        return None
    return Repaired(
        request=replace(request, parallel_tool_calls=UNSET),
        changed=("parallel_tool_calls",),
        undo=_UNDO,
    )


def parallel_calls(source: str, models: Callable[[str], bool] = every_model) -> tuple[Repair]:
    """Return the rule for a vendor. source: where it documents its requests."""
    rule = Repair(
        name="one_call",
        about="gives the client the first of several calls for `parallel_tool_calls: false`",
        source=source,
        facts=ONE_CALL,
        apply=_with_any_number,
        example=ChatRequest(
            "m",
            (Message(role="user", content="What is the weather?"),),
            tools=(FunctionTool(name="weather"),),
            tool_choice=ToolChoice(mode="auto"),
            parallel_tool_calls=False,
        ),
        models=models,
    )
    return (rule,)
