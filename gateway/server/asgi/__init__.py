"""The HTTP side of a request over plain ASGI: read it, watch it, answer it."""
