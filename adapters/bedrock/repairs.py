"""Repair rules of Bedrock's Converse API."""

from typing import Final

from strowger_gateway.adapters.anthropic.claude_models import may_be_claude
from strowger_gateway.adapters.anthropic.cloud_betas import BEDROCK_BETAS, BEDROCK_SOURCE
from strowger_gateway.adapters.anthropic.sampling_repairs import SAMPLING_REPAIRS
from strowger_gateway.adapters.anthropic.thinking_repairs import THINKING_REPAIRS
from strowger_gateway.adapters.anthropic.turn_repairs import TURN_REPAIRS
from strowger_gateway.adapters.bedrock.form_repairs import FORM_REPAIRS
from strowger_gateway.adapters.bedrock.json_mode import JSON_MODE
from strowger_gateway.adapters.bedrock.model_repairs import MODEL_REPAIRS
from strowger_gateway.adapters.bedrock.reasoning_effort import CLAUDE as CLAUDE_MODELS
from strowger_gateway.adapters.form_repairs.cache_limits import CACHE_LIMITS
from strowger_gateway.adapters.form_repairs.image_types import image_types
from strowger_gateway.adapters.form_repairs.presence import blank_result
from strowger_gateway.adapters.repairs.betas import betas
from strowger_gateway.adapters.repairs.call_ids import call_ids
from strowger_gateway.adapters.repairs.closed_schemas import closed_schemas
from strowger_gateway.adapters.repairs.hints import IMAGE_DETAIL, MESSAGE_NAMES
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.roles import later_system
from strowger_gateway.adapters.repairs.stops import blank_stops
from strowger_gateway.adapters.repairs.thoughts import own_thoughts
from strowger_gateway.adapters.repairs.tools_from_history import (
    no_tool_choice_none,
    tools_from_history,
)
from strowger_gateway.adapters.tool_repairs.one_form import one_form
from strowger_gateway.schemas.messages import CLAUDE


def is_claude(model: str) -> bool:
    """Return whether the name is that of one of Claude's models at Bedrock."""
    return CLAUDE_MODELS.search(model) is not None


_SONNET: Final = "anthropic.claude-sonnet-4-5-20250929-v1:0"
_CONVERSE: Final = "https://docs.aws.amazon.com/bedrock/latest/APIReference/"

BEDROCK_REPAIRS: Final = (
    later_system(f"{_CONVERSE}API_runtime_Converse.html"),
    own_thoughts(
        f"{_CONVERSE}API_runtime_ReasoningTextBlock.html",
        lambda model: (CLAUDE,) if may_be_claude(model) else (),
    ),
    betas(BEDROCK_SOURCE, BEDROCK_BETAS, models=is_claude),
    *THINKING_REPAIRS,
    *SAMPLING_REPAIRS,
    *TURN_REPAIRS,
    blank_result("https://github.com/pydantic/pydantic-ai/issues/6116"),
    blank_stops("https://github.com/BerriAI/litellm/issues/3286", is_claude),
    *JSON_MODE,
    *MODEL_REPAIRS,
    *FORM_REPAIRS,
    MESSAGE_NAMES,
    IMAGE_DETAIL,
    image_types("https://github.com/BerriAI/litellm/issues/24900"),
    *CACHE_LIMITS,
    call_ids(f"{_CONVERSE}API_runtime_ToolUseBlock.html", "[a-zA-Z0-9_-]{1,64}"),
    tools_from_history("https://github.com/vercel/ai/pull/7537"),
    no_tool_choice_none(f"{_CONVERSE}API_runtime_ToolChoice.html"),
    *parallel_calls(f"{_CONVERSE}API_runtime_ToolConfiguration.html"),
    one_form("https://github.com/anthropics/claude-code/issues/5319", is_claude, _SONNET),
    *closed_schemas("https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html"),
)
"""In the order in which they run."""
