"""What translates reranking requests and answers, imported with the first request."""

from strowger_gateway.gateway.surfaces.rerank.parse import dialect_of, parse_rerank
from strowger_gateway.gateway.surfaces.rerank.render import RankingRenderer
from strowger_gateway.gateway.surfaces.rerank.wire import RerankWire

__all__ = (
    "RankingRenderer",
    "RerankWire",
    "dialect_of",
    "parse_rerank",
)
