"""`strowger traffic`: requests, failures and durations over time, of all gateways."""
