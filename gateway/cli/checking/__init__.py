"""`strowger check`: what only building shows, and the messages with their places."""
