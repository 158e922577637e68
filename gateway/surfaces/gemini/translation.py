"""What translates the Gemini API, imported with the first request."""

from strowger_gateway.gateway.surfaces.gemini.embeddings import (
    EmbedContentRenderer,
    parse_batch,
    parse_embed,
)
from strowger_gateway.gateway.surfaces.gemini.parse import parse_count, parse_generate
from strowger_gateway.gateway.surfaces.gemini.render import GenerateContentRenderer
from strowger_gateway.gateway.surfaces.gemini.wire import (
    BatchEmbedContentsWire,
    CountTokensWire,
    EmbedContentWire,
    GenerateContentWire,
)

__all__ = (
    "BatchEmbedContentsWire",
    "CountTokensWire",
    "EmbedContentRenderer",
    "EmbedContentWire",
    "GenerateContentRenderer",
    "GenerateContentWire",
    "parse_batch",
    "parse_count",
    "parse_embed",
    "parse_generate",
)
