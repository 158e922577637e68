"""What outlives a restart: usage, feedback and experiments, in SQLite or PostgreSQL."""
