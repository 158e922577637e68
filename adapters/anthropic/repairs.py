"""Repair rules of Anthropic's Messages API."""

from typing import Final

from adapters.repairs.roles import later_system

ANTHROPIC_REPAIRS: Final = (later_system("https://docs.anthropic.com/en/api/messages#body-system"),)
"""In the order in which they run."""
