"""Which backends answer a request, in which order, and what happens when one fails."""
