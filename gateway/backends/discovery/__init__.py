"""Discovery: which addresses a name or a file stands for now, and what has changed."""
