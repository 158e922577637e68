"""Adapt an upstream: translate between text and tokens, and add what its backend lacks."""
