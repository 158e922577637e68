"""Repair rules of MindIE's chat."""

from typing import Final

from adapters.openai.repairs import SERVER_REPAIRS
from adapters.repairs.hints import IMAGE_DETAIL

MINDIE_REPAIRS: Final = (*SERVER_REPAIRS, IMAGE_DETAIL)
"""In the order in which they run."""
