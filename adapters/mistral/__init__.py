"""Mistral: the OpenAI dialect with extensions."""
