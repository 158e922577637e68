"""`strowger placement`: run engines in a Ray cluster, as many as the load requires."""
