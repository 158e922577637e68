"""Look-ups that block like the system's, at a DNS server of the test."""

import socket
import time

import dns.exception
import dns.nameserver
import dns.resolver

from strowger_gateway.gateway.platform.names.look_up import Found, LookUp
from tests.gateway.backends.discovery.dns_server import DnsServer

PATIENCE_S = 3.0
"""Seconds for which a look-up blocks without an answer; glibc's: 10 and more."""


def through(server: DnsServer) -> LookUp:
    """Return a blocking look-up of A records, with the errors of getaddrinfo."""
    host, port = server.address.split(":")

    def look_up(name: str) -> Found:
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = [dns.nameserver.Do53Nameserver(host, int(port))]
        resolver.lifetime = resolver.timeout = PATIENCE_S
        try:
            answer = resolver.resolve(name, "A")
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer) as exc:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from exc
        except dns.exception.DNSException as exc:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution") from exc
        return [(socket.AF_INET, (str(one), 0)) for one in answer]

    return look_up


class Clock:
    """Runs with the real one, and can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead
