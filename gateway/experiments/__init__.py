"""Experiments without I/O: who gets which variant, and what may be concluded from the outcomes."""
