"""`strowger cache`: the response cache of a running gateway."""
