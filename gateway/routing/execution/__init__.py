"""Attempts, retries, failover and hedging of one request."""
