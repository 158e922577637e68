"""One process of the gateway, put together."""
