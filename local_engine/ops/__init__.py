"""The operations that differ by device, each beside a reference that runs anywhere."""
