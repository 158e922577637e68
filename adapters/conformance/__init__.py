"""Checks that every adapter must pass; `adapters.testing` is the public entry point."""
