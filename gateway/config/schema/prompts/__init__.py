"""The shape of `prompts` in config.yaml."""
