"""The processes of the gateway: the leader, the workers that serve, and the engines."""
