"""`strowger gateways`: the gateways that share a store."""
