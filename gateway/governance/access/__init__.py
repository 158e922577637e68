"""API keys, client addresses, and what one key may use at the same time."""
