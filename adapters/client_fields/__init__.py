"""Fields outside the schema: which ones a client may send, and which ones reach a provider."""
