"""Clients of Redis, and why a connection to it failed."""
