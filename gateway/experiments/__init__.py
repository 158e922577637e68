"""Experiments: the service that runs them, and mirrored requests."""
