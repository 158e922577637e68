"""The sockets that clients connect to."""

import socket

from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidConfig

_BACKLOG = 2048


class Listener(Struct, frozen=True, kw_only=True, eq=False):
    """The listening sockets of a gateway, at least one; they do not block.

    place: what they were made for, `HOST:PORT` as configured, or SYSTEMD.
    kept: another process holds them as well and goes on after this gateway, so what waits in their
    queues is answered by the next one.
    """

    sockets: tuple[socket.socket, ...]
    place: str = ""
    kept: bool = False

    def close(self) -> None:
        for one in self.sockets:
            one.close()


def bind(host: str, port: int) -> Listener:
    """Bind and listen. port: 0 picks any free one. Raises InvalidConfig if it cannot bind."""
    return Listener(sockets=(listen(host, port),), place=place_of(host, port))


def place_of(host: str, port: int) -> str:
    """Return the `place` of a Listener on a configured address."""
    return f"{host}:{port}"


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


def url_of(listening: socket.socket, scheme: str) -> str:
    """Return the address of a listening socket as a URL; `unix:PATH` for a Unix socket."""
    name = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return f"unix:{name}"
    host, port = name[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
