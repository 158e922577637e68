"""`strowger models`: list what the models of each backend support, and when vendors retire them."""
