"""Credentials that expire: kept, replaced ahead of time, and put on requests."""
