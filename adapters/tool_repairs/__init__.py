"""Repair rules for functions: the tools that a request offers, and the results of their calls."""
