"""What `strowger` can be told to do, one file a command."""
