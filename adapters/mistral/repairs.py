"""Repair rules of Mistral's API."""

from typing import Final

from adapters.repairs.private_fields import private_fields

MISTRAL_REPAIRS: Final = (private_fields("https://docs.mistral.ai/api/", "prompt_cache_key"),)
"""In the order in which they run."""
