"""Effect of one hostile client or backend on the other clients."""
