"""Servers of the OpenAI dialect that need code, not only a vendor profile."""
