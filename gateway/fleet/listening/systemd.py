"""What systemd gives to a service, and what it wants to know.

Sockets that it has bound: https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
States of the service: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import os
import socket
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from ipaddress import ip_address
from itertools import chain, repeat
from typing import Final

from strowger_gateway.gateway.fleet.listening.listening_socket import Listener
from strowger_gateway.schemas.errors import InvalidConfig

SYSTEMD: Final = "systemd"
"""The `place` of a Listener whose sockets systemd has bound."""

_FIRST: Final = 3
_PID, _COUNT, _NAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"


def activated(environment: MutableMapping[str, str] = os.environ) -> Listener | None:
    """Return the sockets that systemd passes to this process; `None` if there are none.

    Removes the variables, which children would take for their own. Raises InvalidConfig for a file
    that is not a listening stream socket, or that is not open.
    """
    pid, count, names = [environment.pop(name, "") for name in (_PID, _COUNT, _NAMES)]
    if pid != str(os.getpid()) or not count.isdecimal() or not int(count):
        return None
    numbers = range(_FIRST, _FIRST + int(count))
    named = chain(names.split(":"), repeat(""))
    problems: list[str] = []
    found: list[socket.socket] = []
    for number, name in zip(numbers, named, strict=False):
        where = f"{_COUNT}: file descriptor {number}{f' ({name})' if name else ''}"
        try:
            os.set_inheritable(number, False)
        except OSError as exc:
            problems.append(f"{where} is not open: {exc.strerror}; the count is {count}")
            break  # and neither are those behind it
        try:
            one = socket.socket(fileno=number)
            listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as exc:
            problems.append(f"{where} is not a socket: {exc.strerror}; use ListenStream=")
            continue
        if not listens or one.type != socket.SOCK_STREAM:
            problems.append(f"{where} is not a listening stream socket; use ListenStream=")
            continue
        one.setblocking(False)
        found.append(one)
    if problems:
        raise InvalidConfig(tuple(problems))
    return Listener(sockets=tuple(found), place=SYSTEMD, kept=True)


def widest_address(listener: Listener) -> tuple[str, int] | None:
    """Return host and port of the socket that most clients can reach; `None`: only Unix sockets."""
    found = list(_addresses(listener))
    open_ones = [one for one in found if not ip_address(one[0].partition("%")[0]).is_loopback]
    return next(iter((*open_ones, *found)), None)


def _addresses(listener: Listener) -> Iterator[tuple[str, int]]:
    for one in listener.sockets:
        if one.family in (socket.AF_INET, socket.AF_INET6):
            host, port = one.getsockname()[:2]
            yield str(host), int(port)


def notify(*states: str) -> None:
    """Send states to the service manager, such as `READY=1`; nothing happens without one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto("\n".join(states).encode(), address)
