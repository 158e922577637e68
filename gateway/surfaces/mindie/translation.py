"""What translates MindIE's token requests and answers, imported with the first request."""

from gateway.surfaces.mindie.parse import parse_infer_token
from gateway.surfaces.mindie.render import InferTokenRenderer
from gateway.surfaces.mindie.wire import InferTokenWire

__all__ = (
    "InferTokenRenderer",
    "InferTokenWire",
    "parse_infer_token",
)
