"""Export of recorded requests and attempts to Parquet, by day, each row exactly once."""
