"""What translates requests for scores, classes and pooling, imported with the first request."""

from strowger_gateway.gateway.surfaces.pooling.parse import parse_classify, parse_score
from strowger_gateway.gateway.surfaces.pooling.pool import PoolRenderer, PoolWire, parse_pool
from strowger_gateway.gateway.surfaces.pooling.render import ClassRenderer, ScoreRenderer
from strowger_gateway.gateway.surfaces.pooling.wire import ClassifyWire, ScoreWire

__all__ = (
    "ClassRenderer",
    "ClassifyWire",
    "PoolRenderer",
    "PoolWire",
    "ScoreRenderer",
    "ScoreWire",
    "parse_classify",
    "parse_pool",
    "parse_score",
)
