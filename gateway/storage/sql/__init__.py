"""The persistent store of usage, feedback and experiments, in SQLite or PostgreSQL."""
