"""Sockets and bytes: HTTP/1.1, ASGI and TLS."""
