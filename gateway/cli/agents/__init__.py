"""`strowger agents`: point coding agents at the gateway, and check that they reach it."""
