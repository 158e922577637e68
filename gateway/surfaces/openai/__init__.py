"""The OpenAI surface."""
