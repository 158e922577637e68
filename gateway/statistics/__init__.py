"""The statistics of experiments: pure functions, each with its source."""
