"""Work that can hold the interpreter for long, in child processes that can be ended."""
