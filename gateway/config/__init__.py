"""config.yaml: its schema, its reader, and the checks before the gateway starts."""
