"""Guided decoding: grammars for the engine's answers."""
