"""What translates Databricks' requests and answers, imported with the first request."""

from strowger_gateway.gateway.surfaces.databricks.parse import parse_invocation, parse_task
from strowger_gateway.gateway.surfaces.databricks.render import (
    DatabricksEmbeddingsRenderer,
    DatabricksRenderer,
)
from strowger_gateway.gateway.surfaces.databricks.wire import (
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
