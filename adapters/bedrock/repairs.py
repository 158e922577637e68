"""Repair rules of Bedrock's Converse API."""

from typing import Final

from adapters.anthropic.claude_models import may_be_claude
from adapters.repairs.roles import later_system
from adapters.repairs.thoughts import own_thoughts
from schemas.messages import CLAUDE

BEDROCK_REPAIRS: Final = (
    later_system(
        "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html"
    ),
    own_thoughts(
        "https://docs.aws.amazon.com/bedrock/latest/APIReference/"
        "API_runtime_ReasoningTextBlock.html",
        lambda model: (CLAUDE,) if may_be_claude(model) else (),
    ),
)
"""In the order in which they run."""
