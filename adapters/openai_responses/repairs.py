"""Repair rules of OpenAI's Responses API."""

from typing import Final

from adapters.openai.repairs import PRIVATE_VALUES
from adapters.openai_responses.container_items import CONTAINER_ITEMS

RESPONSES_REPAIRS: Final = (PRIVATE_VALUES, CONTAINER_ITEMS)
"""OpenAI's own servers and Azure's, in the order in which the rules run."""
