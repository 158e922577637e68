"""Traffic over time of all gateways: counts and durations by model, backend, team and key."""
