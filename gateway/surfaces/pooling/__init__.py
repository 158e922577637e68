"""Scores of pairs of texts, classes of texts and pooling, as vLLM, TEI and Jina have them."""
