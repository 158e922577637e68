"""Limits of requests, tokens and concurrent requests, by API key and model."""
