"""Checks that every adapter has to pass; `adapters.testing` is the public entry point."""
