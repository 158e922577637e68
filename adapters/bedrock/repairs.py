"""Repair rules of Bedrock's Converse API."""

from typing import Final

from adapters.repairs.roles import later_system

BEDROCK_REPAIRS: Final = (
    later_system(
        "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html"
    ),
)
"""In the order in which they run."""
