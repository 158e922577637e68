"""Repair rules for what single models do not take: settings, thinking, formats of answers."""
