"""Work on what clients sent that must not hold up the process: turns by tenant, child processes."""
