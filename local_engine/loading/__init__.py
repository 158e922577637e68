"""Locate and load checkpoints."""
