"""Addresses of host names: one look-up in flight per name, and answers that are kept."""
