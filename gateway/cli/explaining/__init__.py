"""`strowger explain`: show where a request would be routed, and why."""
