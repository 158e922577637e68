"""Repair rules of Mistral's API."""

from typing import Final

from adapters.openai.repairs import SERVER_REPAIRS
from adapters.repairs.call_ids import call_ids
from adapters.repairs.hints import MESSAGE_NAMES
from adapters.repairs.private_fields import private_fields

MISTRAL_REPAIRS: Final = (
    *SERVER_REPAIRS,
    MESSAGE_NAMES,
    call_ids("https://github.com/anomalyco/opencode/issues/1680", "[a-zA-Z0-9]{9}", 9),
    private_fields("https://docs.mistral.ai/api/", "prompt_cache_key"),
)
"""In the order in which they run."""
