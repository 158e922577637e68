"""The rows of experiments: outcomes, votes, the history of intervals, exports."""
