"""The built-in hooks: patterns and words, secrets, sizes."""
