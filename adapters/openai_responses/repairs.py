"""Repair rules of OpenAI's Responses API."""

from typing import Final

from adapters.openai.repairs import PRIVATE_VALUES
from adapters.openai_responses.container_items import CONTAINER_ITEMS
from adapters.repairs.call_ids import call_ids

_IDS: Final = call_ids("https://github.com/dyad-sh/dyad/issues/4304", r".{1,64}")

RESPONSES_REPAIRS: Final = (_IDS, PRIVATE_VALUES, CONTAINER_ITEMS)
"""OpenAI's own servers and Azure's, in the order in which the rules run."""
