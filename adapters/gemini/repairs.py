"""Repair rules of Gemini's API, also on Vertex AI."""

from typing import Final

from adapters.repairs.roles import later_system

GEMINI_REPAIRS: Final = (later_system("https://ai.google.dev/api/generate-content#request-body"),)
"""In the order in which they run."""
