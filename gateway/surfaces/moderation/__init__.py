"""Moderation, as OpenAI and Mistral have it."""
