"""Recorded requests under /admin: the API, its export and its live tail."""
