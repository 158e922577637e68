"""Ollama's own API: conversations, prompts and embeddings, in lines of JSON."""
