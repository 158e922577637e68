"""Repair rules of Databricks' model serving."""

from typing import Final

from adapters.model_limits.proofs import foreign_proofs
from adapters.openai.model_families import is_claude
from adapters.openai.repairs import server_repairs
from adapters.repairs.parallel_calls import parallel_calls
from schemas.messages import CLAUDE

_DOCS: Final = (
    "https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference"
)


def _reads(format: str, model: str) -> bool:
    """Return whether the endpoint reads a proof: Claude does, and names may not say who answers.

    Databricks' own endpoints are named after their models.
    """
    return format == CLAUDE and (is_claude(model) or not model.startswith("databricks-"))


DATABRICKS_REPAIRS: Final = server_repairs(
    foreign_proofs(_reads),
    *parallel_calls(_DOCS),
    marks=True,
)
"""In the order in which they run."""
