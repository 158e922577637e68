"""Guided decoding: grammars, and tool calls in the text of an answer."""
