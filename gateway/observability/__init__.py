"""What happened: metrics, records, traces and payloads."""
