"""What translates MindIE's token requests and answers, imported with the first request."""

from strowger_gateway.gateway.surfaces.mindie.parse import parse_infer_token
from strowger_gateway.gateway.surfaces.mindie.render import InferTokenRenderer
from strowger_gateway.gateway.surfaces.mindie.wire import InferTokenWire

__all__ = (
    "InferTokenRenderer",
    "InferTokenWire",
    "parse_infer_token",
)
