"""Limits over several gateways: what counts is in Redis, changed by one script."""
