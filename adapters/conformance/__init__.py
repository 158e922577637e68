"""Checks that every adapter must pass; `adapters/testing.py` is the public entry point."""
