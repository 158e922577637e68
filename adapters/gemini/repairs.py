"""Repair rules of Gemini's API, also on Vertex AI."""

from typing import Final

from strowger_gateway.adapters.form_repairs.arguments import call_arguments
from strowger_gateway.adapters.form_repairs.presence import blank_text, no_prefill, user_first
from strowger_gateway.adapters.form_repairs.turn_order import alternating
from strowger_gateway.adapters.gemini.encode import is_older
from strowger_gateway.adapters.gemini.model_limits import (
    efforts_of,
    has_no_penalties,
    refused_sampling,
)
from strowger_gateway.adapters.gemini.own_tools import FUNCTIONS_ALONE
from strowger_gateway.adapters.model_limits.format_or_tools import format_or_tools
from strowger_gateway.adapters.model_limits.settings import effort_values, fixed_sampling
from strowger_gateway.adapters.openai.model_families import takes_no_prefill
from strowger_gateway.adapters.repairs.hints import IMAGE_DETAIL, MESSAGE_NAMES
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.roles import later_system
from strowger_gateway.adapters.repairs.rule import Repair
from strowger_gateway.adapters.repairs.tool_names import tool_names
from strowger_gateway.adapters.tool_repairs.named_tools import named_tools
from strowger_gateway.adapters.tool_repairs.tool_media import text_results
from strowger_gateway.adapters.web_search.rules import web_search, web_search_options
from strowger_gateway.adapters.web_search.targets import GEMINI, VERTEX, Target

_REPAIRS: Final = (
    later_system("https://ai.google.dev/api/generate-content#request-body"),
    tool_names(
        "https://github.com/google-gemini/gemini-cli/issues/9535", "[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
    ),
    *parallel_calls("https://ai.google.dev/api/caching#FunctionCallingConfig"),
    MESSAGE_NAMES,
    call_arguments("https://ai.google.dev/api/caching#FunctionCall"),
    blank_text("https://github.com/envoyproxy/ai-gateway/pull/2686", with_calls=True),
    user_first("https://github.com/google-gemini/gemini-cli/issues/11814"),
    no_prefill(
        "https://ai.google.dev/gemini-api/docs/latest-model", takes_no_prefill, "gemini-3.6-flash"
    ),
    alternating("https://github.com/lobehub/lobehub/issues/10049", {"assistant"}),
    IMAGE_DETAIL,
    effort_values(
        "https://ai.google.dev/gemini-api/docs/thinking#levels-budgets", efforts_of, "gemini-3-pro"
    ),
    *fixed_sampling(
        "https://github.com/vercel/ai/issues/8943",
        refused_sampling,
        has_no_penalties,
        "gemini-2.5-flash",
    ),
    format_or_tools(
        "https://github.com/googleapis/python-genai/issues/867",
        is_older,
        example="gemini-2.5-flash",
    ),
    FUNCTIONS_ALONE,
    text_results(
        "https://ai.google.dev/gemini-api/docs/function-calling#multimodal", models=is_older
    ),
)


def _searching(target: Target) -> tuple[Repair, ...]:
    """Return all rules, in the order in which they run."""
    return (web_search_options(target), *web_search(target), named_tools(searches=True), *_REPAIRS)


GEMINI_REPAIRS: Final = _searching(GEMINI)
VERTEX_REPAIRS: Final = _searching(VERTEX)
"""Of Vertex AI, whose search has other settings."""
