"""The search over recorded requests: what a view of a full store takes."""
