"""`strowger requests`: recorded requests of a running gateway."""
