"""Ollama: its native chat, generate and embed APIs."""
