"""Repair rules of Anthropic's Messages API."""

from typing import Final

from adapters.anthropic.claude_models import may_be_claude
from adapters.repairs.roles import later_system
from adapters.repairs.thoughts import own_thoughts
from schemas.messages import CLAUDE

ANTHROPIC_REPAIRS: Final = (
    later_system("https://docs.anthropic.com/en/api/messages#body-system"),
    own_thoughts(
        "https://github.com/anthropics/anthropic-sdk-python/issues/1598",
        lambda _: (CLAUDE,),
        checks=may_be_claude,
    ),
)
"""In the order in which they run."""
