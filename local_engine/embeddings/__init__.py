"""Embedding models: reading requests, batching, pooling."""
