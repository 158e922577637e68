"""Repair rules of Gemini's API, also on Vertex AI."""

from typing import Final

from adapters.repairs.roles import later_system
from adapters.repairs.tool_names import tool_names

GEMINI_REPAIRS: Final = (
    later_system("https://ai.google.dev/api/generate-content#request-body"),
    tool_names(
        "https://github.com/google-gemini/gemini-cli/issues/9535", "[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
    ),
)
"""In the order in which they run."""
