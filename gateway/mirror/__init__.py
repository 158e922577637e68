"""Copies of requests to a second backend, and what its answers are like beside the real ones."""
