"""Rules of single makers' models at Bedrock: the choice of tools, and degrees of effort.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolChoice.html
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.bedrock.reasoning_effort import GPT_OSS, NOVA_2
from strowger_gateway.adapters.model_limits.settings import effort_values
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import FORCED
from strowger_gateway.schemas.messages import FunctionTool, Message, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest, Request

_UNFORCED: Final = re.compile(r"meta\.llama|cohere\.command|ai21\.")
_WITHOUT_NAMES: Final = re.compile(r"mistral\.(?:mistral|pixtral)-large")
_SOURCE: Final = "https://github.com/strands-agents/harness-sdk/issues/1241"

_EFFORTS: Final = (
    (GPT_OSS, ("low", "medium", "high")),
    (NOVA_2, ("none", "low", "medium", "high")),
)


def _is_unforced(model: str) -> bool:
    return _UNFORCED.search(model) is not None


def _is_without_names(model: str) -> bool:
    return _WITHOUT_NAMES.search(model) is not None


def _free(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice) or choice.mode not in ("named", "required"):
        return None
    return Repaired(request=replace(request, tool_choice=UNSET), left_out=("tool_choice",))


def _one_offered(request: Request, _: Aim) -> Repaired | None:
    """Offer only the function that has to be called: its call is the only one possible."""
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice) or choice.mode != "named":
        return None
    only = [one for one in request.tools if isinstance(one, FunctionTool)]
    only = [one for one in only if one.name == choice.name]
    if not only:
        return None
    forced = replace(request, tools=tuple(only), tool_choice=ToolChoice(mode="required"))
    return Repaired(request=forced, changed=("tools", "tool_choice"))


def _efforts(model: str) -> Sequence[str] | None:
    return next((known for maker, known in _EFFORTS if maker.search(model)), None)


def _has_efforts(model: str) -> bool:
    return _efforts(model) is not None


_FORCED: Final = ChatRequest(
    "m",
    (Message(role="user", content="What is the weather?"),),
    tools=(FunctionTool(name="weather"), FunctionTool(name="time")),
    tool_choice=ToolChoice(mode="named", name="weather"),
)

MODEL_REPAIRS: Final = (
    Repair(
        name="unforced_tools",
        about="leaves the choice of tools to models that cannot be forced",
        source=_SOURCE,
        facts=FORCED,
        apply=_free,
        example=_FORCED,
        example_model="meta.llama3-3-70b-instruct-v1:0",
        loss="constraint",
        models=_is_unforced,
    ),
    Repair(
        name="one_offered",
        about="offers only the function that has to be called, and forces any call",
        source="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolChoice.html",
        facts=FORCED,
        apply=_one_offered,
        example=_FORCED,
        example_model="mistral.mistral-large-2407-v1:0",
        models=_is_without_names,
    ),
    replace(
        effort_values(
            "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html",
            _efforts,
            "openai.gpt-oss-120b-1:0",
        ),
        name="nearest_effort",
        models=_has_efforts,
    ),
)
"""In the order in which they run."""
