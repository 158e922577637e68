"""The JSON Schema of config.yaml, with which editors complete and check it."""
