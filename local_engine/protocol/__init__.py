"""What the gateway and the engine send each other; no torch."""
