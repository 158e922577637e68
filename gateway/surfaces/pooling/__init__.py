"""Scores of pairs of texts, and classes of texts, as vLLM, TEI and Jina have them."""
