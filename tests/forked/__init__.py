"""Runs the suite in forks of one process that has imported and collected all tests."""
