"""Repair rules of Mistral's API."""

from typing import Final

from adapters.form_repairs.turn_order import answer_after_result
from adapters.model_limits.vendors import MISTRAL_EFFORT
from adapters.openai.repairs import server_repairs
from adapters.repairs.call_ids import call_ids
from adapters.repairs.hints import MESSAGE_NAMES
from adapters.repairs.private_fields import private_fields
from adapters.repairs.roles import later_system

MISTRAL_REPAIRS: Final = server_repairs(
    MESSAGE_NAMES,
    MISTRAL_EFFORT,
    later_system("https://github.com/mistralai/mistral-common"),
    call_ids("https://github.com/anomalyco/opencode/issues/1680", "[a-zA-Z0-9]{9}", 9),
    private_fields("https://docs.mistral.ai/api/", "prompt_cache_key"),
    answer_after_result("https://github.com/datapizza-labs/datapizza-ai/issues/98"),
)
"""In the order in which they run."""
