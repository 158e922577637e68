"""Shared state of backends: among the processes of a gateway, and among gateways through Redis."""
