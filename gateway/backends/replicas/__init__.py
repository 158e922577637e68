"""Replicas of backends in the processes of a gateway: found once, used by all."""
