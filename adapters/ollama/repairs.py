"""Repair rules of Ollama's API."""

from typing import Final

from adapters.repairs.hints import IMAGE_DETAIL, MESSAGE_NAMES
from adapters.repairs.roles import DEVELOPER_ROLE

OLLAMA_REPAIRS: Final = (DEVELOPER_ROLE, MESSAGE_NAMES, IMAGE_DETAIL)
"""In the order in which they run."""
