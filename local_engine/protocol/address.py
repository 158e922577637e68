"""Addresses of engines on TCP: `HOST:PORT`, with an IPv6 address in brackets."""

import ipaddress
import re

from msgspec import Struct

MAX_PORT = 65_535
_FORM = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")


class TcpAddress(Struct, frozen=True):
    """host: a name or an IP address, without brackets. port: 0 takes a free one when listening."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only processes of this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> TcpAddress:
    """Raises ValueError, with the expected form."""
    found = _FORM.fullmatch(text)
    if found is None or int(found["port"]) > MAX_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT, for example 10.0.0.5:9000 or [fd00::5]:9000")
    return TcpAddress(found["v6"] or found["host"], int(found["port"]))
