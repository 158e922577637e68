"""Issued API keys: made, rotated and revoked in the store, and distributed to every process."""
