"""Several keys of a vendor as one pool: each cools down by itself, and a call moves to another."""
