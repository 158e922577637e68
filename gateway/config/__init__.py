"""config.yaml: its shape, how it is read, and what is checked before anything starts."""
