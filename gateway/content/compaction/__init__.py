"""Summaries in place of long conversations, for backends that make none themselves."""
