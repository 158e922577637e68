"""Explain where a request would be routed, and why, without sending it."""
