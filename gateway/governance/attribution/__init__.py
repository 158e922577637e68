"""What requests are attributed to besides their key: the client program and the caller's tags."""
