"""Repair rules of Cohere's API."""

from typing import Final

from adapters.repairs.hints import MESSAGE_NAMES
from adapters.repairs.roles import DEVELOPER_ROLE
from adapters.repairs.tool_media import text_results

COHERE_REPAIRS: Final = (
    DEVELOPER_ROLE,
    MESSAGE_NAMES,
    text_results("https://docs.cohere.com/reference/chat#request.body.messages.tool"),
)
"""In the order in which they run."""
