"""How the gateway is made of processes: one that leads, those that serve, and the engines."""
