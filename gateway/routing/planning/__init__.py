"""Which backends can take a request, and in which order."""
