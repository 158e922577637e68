"""Where the addresses of replicas come from."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import Name, Path, Port, Seconds, SecondsOrZero


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


class DiscoverReplicas(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Discover, for servers over HTTP.

    slow_start_s: how long the share of a replica that was added later grows to a whole one.
    gauges:  auto: read from /metrics how busy each replica is, once per second.
    gauges_port: of /metrics; `None`: the replica's own.
    """

    dns: Name | None = None
    port: Port | None = None
    server: Name | None = None
    file: Path | None = None
    every_s: Seconds = 5.0
    keep_s: Seconds = 600.0
    slow_start_s: SecondsOrZero = 30.0
    gauges: Literal["auto", "off"] = "auto"
    gauges_port: Annotated[int, Meta(ge=1, le=65535)] | None = None

    @property
    def addresses(self) -> Discover:
        """The part that says where the addresses come from."""
        return Discover(
            dns=self.dns,
            port=self.port,
            server=self.server,
            file=self.file,
            every_s=self.every_s,
            keep_s=self.keep_s,
        )
