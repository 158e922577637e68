"""What an experiment fixes before its data, and what was changed since."""
