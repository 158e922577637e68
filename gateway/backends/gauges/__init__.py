"""Read how busy replicas are from their own metrics, in the leader, for all processes."""
