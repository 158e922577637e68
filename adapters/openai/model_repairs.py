"""Repair rules for what single models of OpenAI do not take, on any host.

https://developers.openai.com/api/docs/guides/reasoning
"""

from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.model_limits.formats import described_schema, json_word
from strowger_gateway.adapters.model_limits.settings import (
    effort_values,
    fixed_sampling,
    without_effort,
)
from strowger_gateway.adapters.openai.model_families import (
    calls_with_none,
    calls_without_effort,
    chat_efforts_of,
    efforts_of,
    has_no_schemas,
    is_openais,
    reasons,
    refused_sampling,
)
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.adapters.repairs.stops import stops
from strowger_gateway.schemas.content_facts import TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message
from strowger_gateway.schemas.requests import ChatRequest, Request

_EFFORTS: Final = "https://community.openai.com/t/1371738"
_SAMPLING: Final = "https://github.com/khoj-ai/khoj/issues/1377"

EFFORT: Final = effort_values(_EFFORTS, efforts_of, "gpt-5.5")
"""The Responses API."""

_CHAT_EFFORT: Final = effort_values(_EFFORTS, chat_efforts_of, "gpt-5.5")

FIXED_SAMPLING: Final = fixed_sampling(_SAMPLING, refused_sampling, reasons, "o3")


def _with_calls(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    if request.reasoning_effort == "none":
        return None
    if calls_with_none(aim.model):
        sent = replace(request, reasoning_effort="none")
        return Repaired(request=sent, changed=("reasoning_effort",))
    return without_effort(request) if request.reasoning_effort else None


CALLS_WITHOUT_EFFORT: Final = Repair(
    name="calls_without_effort",
    about="sends no effort with functions, which later models take together only in the Responses "
    "API (adapter `openai-responses`)",
    source="https://github.com/openai/openai-openapi/issues/541",
    facts=TOOLS,
    apply=_with_calls,
    example=ChatRequest(
        "m",
        (Message(role="user", content="Hello"),),
        tools=(FunctionTool(name="look_up"),),
        reasoning_effort="low",
    ),
    example_model="gpt-5.5",
    loss="hint",
    models=calls_without_effort,
    light=True,
)

REASONING_STOPS: Final = stops(
    "https://github.com/huggingface/smolagents/issues/1671", models=reasons
)
"""Models that reason take no stop strings in chat completions."""

_JSON_MODE: Final = (
    "https://platform.openai.com/docs/guides/structured-outputs?api-mode=chat#json-mode"
)
_SCHEMAS: Final = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"

_WORD: Final = json_word(_JSON_MODE, is_openais)
JSON_WORD: Final = _WORD.name

CHAT_MODEL_REPAIRS: Final = (
    _CHAT_EFFORT,
    CALLS_WITHOUT_EFFORT,
    *FIXED_SAMPLING,
    REASONING_STOPS,
    described_schema(_SCHEMAS, has_no_schemas),
    _WORD,
)
"""Chat completions, in the order in which the rules run: an effort decides about sampling."""

RESPONSES_MODEL_REPAIRS: Final = (EFFORT, *FIXED_SAMPLING, json_word(_JSON_MODE, apart=True))
"""The Responses API, which has no stop strings."""
