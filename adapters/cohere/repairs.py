"""Repair rules of Cohere's API."""

from typing import Final

from strowger_gateway.adapters.form_repairs.part_forms import IMAGE_ADDRESS, TEXT_FILES
from strowger_gateway.adapters.form_repairs.presence import blank_result, blank_text
from strowger_gateway.adapters.model_limits.format_or_tools import format_or_tools
from strowger_gateway.adapters.model_limits.settings import efforts_to_high
from strowger_gateway.adapters.repairs.hints import MESSAGE_NAMES
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.roles import DEVELOPER_ROLE
from strowger_gateway.adapters.tool_repairs.tool_media import text_results

_THINKING: Final = "https://docs.cohere.com/docs/reasoning"

COHERE_REPAIRS: Final = (
    DEVELOPER_ROLE,
    MESSAGE_NAMES,
    blank_text("https://github.com/kwaroran/Risuai/issues/504"),
    blank_result("https://docs.cohere.com/v2/reference/chat"),
    TEXT_FILES,
    IMAGE_ADDRESS,
    efforts_to_high(_THINKING),
    format_or_tools("https://docs.cohere.com/docs/structured-outputs", alone=("documents",)),
    *parallel_calls("https://docs.cohere.com/reference/chat#request.body.tool_choice"),
    text_results("https://docs.cohere.com/reference/chat#request.body.messages.tool"),
)
"""In the order in which they run."""
