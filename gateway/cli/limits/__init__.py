"""`strowger limits`: what is used of each limit now."""
