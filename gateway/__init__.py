"""The gateway: what clients connect to, what it routes to, and the process around both."""
