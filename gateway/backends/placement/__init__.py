"""`strowger placement`: how many engines run in a cluster, and the file with their addresses."""
