"""Repair rules of Databricks' model serving."""

from typing import Final

from adapters.openai.repairs import server_repairs
from adapters.repairs.parallel_calls import parallel_calls

_DOCS: Final = (
    "https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference"
)

DATABRICKS_REPAIRS: Final = server_repairs(*parallel_calls(_DOCS), marks=True)
"""In the order in which they run."""
