"""Client bytes to schemas and back, one file a wire format, without I/O."""
