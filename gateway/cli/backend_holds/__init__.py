"""`strowger backends`: take backends out of service, and put them back."""
