"""Messages between the gateway and the engine; no torch."""
