"""Local engines: their processes, and the connection to them."""
