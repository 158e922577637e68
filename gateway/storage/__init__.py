"""Where things are kept: the database, Redis, Parquet files."""
