"""`strowger status` and `strowger events`."""
