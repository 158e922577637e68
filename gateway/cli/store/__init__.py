"""`strowger store`: the database itself."""
