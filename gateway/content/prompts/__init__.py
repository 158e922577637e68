"""Prompts: what a request names, rendering, and the history of texts."""
