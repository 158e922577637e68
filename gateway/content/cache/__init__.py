"""The response cache: exact answers to equal requests of one tenant, in memory or in Redis."""
