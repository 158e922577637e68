"""`strowger engines`: list the engines of a running gateway."""
