"""The database of a LiteLLM proxy: its keys, teams, budgets, models and settings."""
