"""Which sequences run in a step, and which cache blocks they use; no torch."""
