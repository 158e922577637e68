"""The coding agents that can be set up, one module each."""
