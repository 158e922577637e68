"""Repair rules of Ollama's API."""

from typing import Final

from strowger_gateway.adapters.form_repairs.arguments import call_arguments
from strowger_gateway.adapters.form_repairs.part_forms import TEXT_FILES
from strowger_gateway.adapters.model_limits.settings import efforts_to_high
from strowger_gateway.adapters.model_limits.thinking import free_choice
from strowger_gateway.adapters.repairs.hints import IMAGE_DETAIL, MESSAGE_NAMES
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.adapters.repairs.roles import DEVELOPER_ROLE, ONE_SYSTEM
from strowger_gateway.adapters.repairs.rule import every_model
from strowger_gateway.adapters.tool_repairs.withheld_tools import withheld_tools

_DOCS: Final = "https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion"

OLLAMA_REPAIRS: Final = (
    DEVELOPER_ROLE,
    *ONE_SYSTEM,
    MESSAGE_NAMES,
    IMAGE_DETAIL,
    TEXT_FILES,
    call_arguments(_DOCS),
    efforts_to_high(_DOCS),
    free_choice(_DOCS, every_model, "qwen3"),
    *parallel_calls(_DOCS),
    withheld_tools(_DOCS),
)
"""In the order in which they run."""
