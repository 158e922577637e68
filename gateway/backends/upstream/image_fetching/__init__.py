"""Fetch images that a request names by URL, for backends that accept only bytes."""
