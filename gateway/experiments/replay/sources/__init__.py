"""Where replayed prompts come from: a file, or logged payloads."""
