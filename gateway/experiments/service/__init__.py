"""Running experiments: their state, guardrails, feedback and reports, on the store."""
