"""Several gateways that act as one: what each says of its backends, told to the others by Redis."""
