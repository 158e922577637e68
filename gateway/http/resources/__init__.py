"""What clients look up rather than ask a model: one module a dialect, and one for operations."""
