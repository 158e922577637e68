"""The Anthropic surface: the Messages API."""
