"""The configuration in force, for operators: settings, reloads, and why a file is rejected."""
