"""The HTTP side of a request, over plain ASGI: reading it, watching it, answering it."""
