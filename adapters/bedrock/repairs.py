"""Repair rules of Bedrock's Converse API."""

from typing import Final

from adapters.anthropic.claude_models import may_be_claude
from adapters.anthropic.cloud_betas import BEDROCK_BETAS, BEDROCK_SOURCE
from adapters.anthropic.sampling_repairs import SAMPLING_REPAIRS
from adapters.anthropic.thinking_repairs import THINKING_REPAIRS
from adapters.bedrock.json_mode import JSON_MODE
from adapters.bedrock.reasoning_effort import CLAUDE as CLAUDE_MODELS
from adapters.repairs.betas import betas
from adapters.repairs.call_ids import call_ids
from adapters.repairs.closed_schemas import closed_schemas
from adapters.repairs.hints import IMAGE_DETAIL, MESSAGE_NAMES
from adapters.repairs.parallel_calls import parallel_calls
from adapters.repairs.roles import later_system
from adapters.repairs.thoughts import own_thoughts
from adapters.repairs.tools_from_history import no_tool_choice_none, tools_from_history
from schemas.messages import CLAUDE


def is_claude(model: str) -> bool:
    """Return whether the name is that of one of Claude's models at Bedrock."""
    return CLAUDE_MODELS.search(model) is not None


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
    *JSON_MODE,
    MESSAGE_NAMES,
    IMAGE_DETAIL,
    call_ids(f"{_CONVERSE}API_runtime_ToolUseBlock.html", "[a-zA-Z0-9_-]{1,64}"),
    tools_from_history("https://github.com/vercel/ai/pull/7537"),
    no_tool_choice_none(f"{_CONVERSE}API_runtime_ToolChoice.html"),
    *parallel_calls(f"{_CONVERSE}API_runtime_ToolConfiguration.html"),
    *closed_schemas("https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html"),
)
"""In the order in which they run."""
