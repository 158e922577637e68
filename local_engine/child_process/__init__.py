"""Work that can block the interpreter for long, in child processes that can be killed."""
