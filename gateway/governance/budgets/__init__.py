"""Budgets in money or tokens, by API key, team, user and model, per calendar period."""
