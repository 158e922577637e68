"""Experiments while they run: how they stand, what stops them, and what they have shown."""
