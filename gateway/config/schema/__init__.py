"""The shape of config.yaml, one module per section, as msgspec structs."""
