"""What translates tensors and TensorRT-LLM's fields, imported with the first request."""

from strowger_gateway.gateway.surfaces.kserve.generate_parse import parse_generate
from strowger_gateway.gateway.surfaces.kserve.generate_render import GenerateRenderer
from strowger_gateway.gateway.surfaces.kserve.generate_wire import GenerateWire
from strowger_gateway.gateway.surfaces.kserve.infer_parse import parse_infer
from strowger_gateway.gateway.surfaces.kserve.infer_render import InferRenderer
from strowger_gateway.gateway.surfaces.kserve.requests import (
    GenerateTextRequest,
    GenerateTokensRequest,
    InferRequest,
    InferTextRequest,
)
from strowger_gateway.gateway.surfaces.kserve.wire import InferWire

__all__ = (
    "GenerateRenderer",
    "GenerateTextRequest",
    "GenerateTokensRequest",
    "GenerateWire",
    "InferRenderer",
    "InferRequest",
    "InferTextRequest",
    "InferWire",
    "parse_generate",
    "parse_infer",
)
