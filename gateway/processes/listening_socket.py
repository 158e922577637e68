"""The socket that clients connect to."""

import socket

from schemas.errors import InvalidConfig

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen. port: 0 picks any free one. Raises InvalidConfig if it cannot bind."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        where, setting = (
            (f"{host}:{port}", "server.port or --port")
            if port
            else (host, "an address of this machine, or 0.0.0.0")
        )
        place = "server" if port else "server.host"
        raise InvalidConfig(
            (f"{place}: cannot listen on {where}: {exc.strerror}; set {setting}",)
        ) from exc
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener
