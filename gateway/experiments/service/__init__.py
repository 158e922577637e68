"""Running experiments: their state, harm limits, feedback and reports, on the store."""
