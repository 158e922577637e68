"""Tokenizers, chat templates, stop strings and detokenization."""
