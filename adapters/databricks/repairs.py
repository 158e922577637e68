"""Repair rules of Databricks' model serving."""

from typing import Final

from msgspec.structs import replace

from adapters.model_limits.proofs import FOREIGN_PROOFS
from adapters.openai.repairs import server_repairs
from adapters.repairs.parallel_calls import parallel_calls

_DOCS: Final = (
    "https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference"
)


def _tells_its_maker(model: str) -> bool:
    """Return whether the endpoint is Databricks' own, named after its model."""
    return model.startswith("databricks-")


DATABRICKS_REPAIRS: Final = server_repairs(
    replace(FOREIGN_PROOFS, models=_tells_its_maker),
    *parallel_calls(_DOCS),
    marks=True,
)
"""In the order in which they run."""
