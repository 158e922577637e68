"""Which fields outside the schema a client may send to a provider, and which of them arrive."""
