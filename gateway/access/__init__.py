"""API keys, client addresses, and what one key may use at a time."""
