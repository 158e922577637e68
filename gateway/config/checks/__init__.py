"""Cross-checks of the configuration, run by `strowger check` and at start."""
