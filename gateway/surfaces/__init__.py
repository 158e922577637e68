"""Translate client bytes to schemas and back, one folder per wire format, without I/O."""
