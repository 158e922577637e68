"""Fetches what a request names by URL, for backends that take it only as bytes."""
