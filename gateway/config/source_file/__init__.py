"""The file of a configuration, as it was read."""
