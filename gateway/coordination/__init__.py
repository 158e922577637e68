"""Shared state of backends: among the processes of a gateway, and among replicas through Redis."""
