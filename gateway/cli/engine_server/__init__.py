"""`strowger engine`: run an engine that gateways of other machines use."""
