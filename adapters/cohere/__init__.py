"""Cohere: chat and embeddings, API version 2."""
