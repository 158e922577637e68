"""Where an engine listens and how to connect: a Unix socket, or TCP with mutual TLS."""
