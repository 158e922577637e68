"""Where the addresses of replicas come from."""

from msgspec import Struct

from gateway.config.schema.units import Name, Path, Port, Seconds


class Discover(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replicas at the addresses of a DNS name, or of a file.

    dns:     a name with A and AAAA records; `_SERVICE._PROTOCOL.NAME` has SRV records.
    port:    of the addresses; SRV records have their own.
    server:  the DNS server, ADDRESS or ADDRESS:PORT; `None`: those of /etc/resolv.conf.
    file:    targets in the format of Prometheus's file_sd, as JSON.
    every_s: the longest time between two look-ups.
    keep_s:  how long the last known addresses are used while the DNS fails.
    """

    dns: Name | None = None
    port: Port | None = None
    server: Name | None = None
    file: Path | None = None
    every_s: Seconds = 5.0
    keep_s: Seconds = 600.0
