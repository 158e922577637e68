"""Whether the rows of a store belong together."""
