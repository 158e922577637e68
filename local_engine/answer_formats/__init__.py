"""The formats in which models write answers: reasoning, text and tool calls."""
