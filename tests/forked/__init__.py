"""Runs the suite in forks of one process that has imported and collected all tests."""

collected: tuple[str, ...] | None = None
"""In a worker that is a fork: the names of the tests that the process it comes from collected."""
