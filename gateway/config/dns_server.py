"""Read the address of a DNS server, as `discover.server` has it."""

from ipaddress import ip_address

DNS_PORT = 53


def server_of(text: str) -> tuple[str, int]:
    """Read ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT. Raises ValueError."""
    bare = text.strip("[]")
    try:
        return str(ip_address(bare)), DNS_PORT
    except ValueError:
        pass
    host, _, port = text.rpartition(":")
    address = str(ip_address(host.removeprefix("[").removesuffix("]")))
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("no port from 1 to 65535")
    return address, int(port)
