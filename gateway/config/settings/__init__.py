"""The settings of a configuration in force: each with its value, its default and its origin."""
