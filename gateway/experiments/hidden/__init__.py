"""Answers that do not show which variant of an experiment they are from."""
