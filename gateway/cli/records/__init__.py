"""`strowger records`: recorded requests and attempts."""
