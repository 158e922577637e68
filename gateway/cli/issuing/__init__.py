"""`strowger keys`: issue API keys into the store, change and revoke them."""
