"""Reranking as Cohere, Jina, Voyage, vLLM and Text Embeddings Inference have it."""
