"""The parts of the page about keys, spend, budgets, limits and audit, rendered on the server."""
