"""Slow backends: first tokens against their own normal and their siblings', and the order."""
