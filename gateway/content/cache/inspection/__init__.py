"""The response cache for operators: what it keeps, what it saves, and how it is cleared."""
