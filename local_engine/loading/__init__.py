"""Checkpoints: where they are, and how they are loaded."""
