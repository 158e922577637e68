"""TLS at the listener: its files are read by the leader, checked, and used by all processes."""
