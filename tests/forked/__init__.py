"""Runs the suite in forks of one process that has imported and collected all tests."""

collected: int | None = None
"""In a worker that is a fork: the number of tests that the process it comes from has collected."""
