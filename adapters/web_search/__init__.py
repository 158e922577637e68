"""Hosted web search: one vendor's tool as another's, and what was found in the client's format."""
