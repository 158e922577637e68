"""Databricks: model serving endpoints and their OAuth tokens."""
