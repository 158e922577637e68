"""Adjust reports by what is known of units whatever their variant: prompts, and the past."""
