"""What translates requests for scores and classes, imported with the first request."""

from strowger_gateway.gateway.surfaces.pooling.parse import parse_classify, parse_score
from strowger_gateway.gateway.surfaces.pooling.render import ClassRenderer, ScoreRenderer
from strowger_gateway.gateway.surfaces.pooling.wire import ClassifyWire, ScoreWire

__all__ = (
    "ClassRenderer",
    "ClassifyWire",
    "ScoreRenderer",
    "ScoreWire",
    "parse_classify",
    "parse_score",
)
