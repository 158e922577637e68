"""What translates Databricks' requests and answers, imported with the first request."""

from gateway.surfaces.databricks.parse import parse_invocation, parse_task
from gateway.surfaces.databricks.render import DatabricksEmbeddingsRenderer, DatabricksRenderer
from gateway.surfaces.databricks.wire import (
    DatabricksChatWire,
    DatabricksCompletionWire,
    DatabricksEmbeddingsWire,
    InvocationWire,
)

__all__ = (
    "DatabricksChatWire",
    "DatabricksCompletionWire",
    "DatabricksEmbeddingsRenderer",
    "DatabricksEmbeddingsWire",
    "DatabricksRenderer",
    "InvocationWire",
    "parse_invocation",
    "parse_task",
)
