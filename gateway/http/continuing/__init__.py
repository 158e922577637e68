"""Answers that later requests continue: stored here, or kept by clients in sealed form."""
