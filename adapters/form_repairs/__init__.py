"""Repair rules for the form of a request: its parts, schemas, names and fields."""
