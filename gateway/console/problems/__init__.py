"""What is wrong with the gateway now, and what has happened: as a band, an API and commands."""
