"""Prices from a catalogue of published prices, read in a process of its own."""
