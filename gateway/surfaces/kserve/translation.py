"""What translates tensors and TensorRT-LLM's fields, imported with the first request."""

from gateway.surfaces.kserve.generate_parse import parse_generate
from gateway.surfaces.kserve.generate_render import GenerateRenderer
from gateway.surfaces.kserve.generate_wire import GenerateWire
from gateway.surfaces.kserve.infer_parse import parse_infer
from gateway.surfaces.kserve.infer_render import InferRenderer
from gateway.surfaces.kserve.requests import (
    GenerateTextRequest,
    GenerateTokensRequest,
    InferRequest,
    InferTextRequest,
)
from gateway.surfaces.kserve.wire import InferWire

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
