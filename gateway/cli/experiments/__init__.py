"""`strowger experiments`: reports, sample size plans, votes and exports."""
