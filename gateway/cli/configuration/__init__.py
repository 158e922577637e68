"""`strowger config`: the settings of a file, or of a running gateway."""
