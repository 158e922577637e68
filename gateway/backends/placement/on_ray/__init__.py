"""A pool of engines on a Ray cluster: the actor that keeps one engine, and Ray's calls."""
