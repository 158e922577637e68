"""What translates Ollama's requests and answers, imported with the first request."""

from strowger_gateway.gateway.surfaces.ollama.embeddings import (
    EmbeddingRenderer,
    EmbedRenderer,
)
from strowger_gateway.gateway.surfaces.ollama.parse import (
    parse_chat,
    parse_embed,
    parse_embedding,
    parse_generate,
)
from strowger_gateway.gateway.surfaces.ollama.render import (
    OllamaChatRenderer,
    OllamaGenerateRenderer,
)
from strowger_gateway.gateway.surfaces.ollama.wire import (
    EmbeddingWire,
    EmbedWire,
    OllamaChatWire,
    OllamaGenerateWire,
)

__all__ = (
    "EmbedRenderer",
    "EmbedWire",
    "EmbeddingRenderer",
    "EmbeddingWire",
    "OllamaChatRenderer",
    "OllamaChatWire",
    "OllamaGenerateRenderer",
    "OllamaGenerateWire",
    "parse_chat",
    "parse_embed",
    "parse_embedding",
    "parse_generate",
)
