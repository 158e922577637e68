"""The sockets that clients connect to, and how they pass from one gateway to the next."""
