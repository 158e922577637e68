"""`strowger limits` and `strowger budgets`: what is used, reserved and left."""
