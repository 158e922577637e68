"""Requests to tokens, and tokens to answers."""
