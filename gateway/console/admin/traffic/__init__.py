"""Traffic over time: of all gateways from the store, and of this one from memory."""
