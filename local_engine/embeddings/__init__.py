"""Embedding models: request reading, batching, pooling."""
