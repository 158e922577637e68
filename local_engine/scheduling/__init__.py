"""Select the sequences of each step and allocate their cache blocks; no torch."""
