"""Checks of backends that need no client's request: `providers[].health_check`."""
