"""The address of a socket, in the form that ASGI has."""

from typing import cast


def address_of(found: object) -> tuple[str, int | None] | None:
    """Return host and port, as ASGI has them; for a Unix socket its path and `None`."""
    if isinstance(found, tuple):
        host, port = cast("tuple[object, ...]", found)[:2]
        return str(host), int(cast(int, port))
    return (found, None) if isinstance(found, str) and found else None
