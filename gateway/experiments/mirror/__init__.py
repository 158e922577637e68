"""Mirror requests to a second backend and compare its answers with the real ones."""
