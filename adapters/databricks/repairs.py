"""Repair rules of Databricks' model serving."""

from typing import Final

from strowger_gateway.adapters.model_limits.proofs import foreign_proofs
from strowger_gateway.adapters.openai.model_families import is_claude
from strowger_gateway.adapters.openai.repairs import server_repairs
from strowger_gateway.adapters.repairs.parallel_calls import parallel_calls
from strowger_gateway.schemas.messages import CLAUDE

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
