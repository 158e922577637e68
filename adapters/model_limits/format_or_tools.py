"""A JSON format of the answer next to functions, at models that take only one of the two.

The functions stay, because the conversation goes on by their calls. The format is described in
words.
"""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.model_limits.formats import described, instructed
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import FORMAT
from strowger_gateway.schemas.messages import FunctionTool, Message, ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest, Request

_JSON: Final = frozenset({"json_object", "json_schema"})


def format_or_tools(
    source: str,
    models: Callable[[str], bool] = every_model,
    *,
    example: str = "model-1",
    alone: tuple[str, ...] = (),
) -> Repair:
    """Return the rule for models. example: one. alone: further fields that take no format."""

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        form = request.response_format
        if not isinstance(form, ResponseFormat) or form.type not in _JSON:
            return None
        if not request.tools and request.extra.keys().isdisjoint(alone):
            return None
        sent = instructed(replace(request, response_format=UNSET), described(request))
        return Repaired(request=sent, changed=("response_format",))

    return Repair(
        name="format_or_tools",
        about="describes the format of the answer in words next to functions",
        source=source,
        facts=FORMAT,
        apply=apply,
        example=ChatRequest(
            "m",
            (Message(role="user", content="List three colours."),),
            tools=(FunctionTool(name="look_up"),),
            response_format=ResponseFormat(
                type="json_schema",
                name="colours",
                schema=Raw(b'{"type":"object","properties":{"colours":{"type":"array"}}}'),
            ),
        ),
        example_model=example,
        loss="constraint",
        models=models,
    )
