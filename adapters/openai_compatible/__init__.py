"""Servers of the OpenAI dialect that need code and not only a row in the table."""
