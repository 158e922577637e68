"""Recorded requests in the page: the list with its filters, and one request."""
