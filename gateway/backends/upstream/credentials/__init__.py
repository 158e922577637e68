"""Credentials that expire: cache them, renew them in advance, and add them to requests."""
