"""Addresses from the DNS: the A and AAAA records of a name, or its SRV records.

dnspython asks the servers itself, because the system's resolver (getaddrinfo) returns neither how
long an answer is valid nor SRV records, and blocks a thread. So /etc/hosts is not read.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import cast

import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.nameserver
import dns.resolver
from msgspec import Struct

from strowger_gateway.gateway.backends.discovery.addresses import refusal
from strowger_gateway.gateway.backends.discovery.source import HostPort, LookUp, LookUpFailed

TIMEOUT_S, LIFETIME_S = 2.0, 5.0
"""For one server's answer, and for all of a query's attempts."""

MOST_TARGETS = 128
"""Names of SRV records that are resolved; further ones are ignored."""

AT_ONCE = 8
"""Names of SRV records that are resolved concurrently."""

_FAMILIES = ("A", "AAAA")


class _Answer(Struct, frozen=True):
    """Records as zone files spell them, and the seconds for which they are valid."""

    records: tuple[str, ...] = ()
    valid_s: float | None = None


class _Service(Struct, frozen=True):
    """An SRV record. https://www.rfc-editor.org/rfc/rfc2782"""

    priority: int
    port: int
    target: str


class DnsSource:
    """See AddressSource. No record at all is an answer: there are no replicas.

    If one family of addresses cannot be looked up, the other one alone is the answer, unless the
    name had addresses of the failed family before: those replicas have not gone.
    """

    lasting = False

    def __init__(self, name: str, port: int | None, server: tuple[str, int] | None = None) -> None:
        """port: `None` for a name with SRV records. server: `None` reads /etc/resolv.conf."""
        self._name = name
        self._port = port
        self._server = server
        self._had: set[tuple[str, str]] = set()

    @property
    def name(self) -> str:
        """See AddressSource."""
        return f"dns {self._name}" if self._port is None else f"dns {self._name}:{self._port}"

    async def look_up(self) -> LookUp:
        """See AddressSource."""
        resolver = self._resolver()
        if self._port is not None:
            found = await self._addresses(resolver, self._name)
            return _found([(one, self._port) for one in found.records], found.valid_s)
        services, valid = await self._services(resolver)
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(service: _Service) -> _Answer:
            async with limit:
                return await self._addresses(resolver, service.target)

        answers = await asyncio.gather(*map(one, services))
        pairs = [
            (address, service.port)
            for service, answer in zip(services, answers, strict=True)
            for address in answer.records
        ]
        return _found(pairs, _least((valid, *(one.valid_s for one in answers))))

    async def _addresses(self, resolver: dns.asyncresolver.Resolver, name: str) -> _Answer:
        """Return the addresses of both families. Raises LookUpFailed."""
        answers = await asyncio.gather(*(_query(resolver, name, one) for one in _FAMILIES))
        failures = [one for one in answers if isinstance(one, LookUpFailed)]
        for family, answer in zip(_FAMILIES, answers, strict=True):
            if isinstance(answer, LookUpFailed) and (name, family) in self._had:
                raise answer
        if len(failures) == len(_FAMILIES):
            raise failures[0]
        found: list[_Answer] = []
        for family, answer in zip(_FAMILIES, answers, strict=True):
            if isinstance(answer, LookUpFailed) or not answer.records:
                self._had.discard((name, family))
            else:
                self._had.add((name, family))
                found.append(answer)
        return _Answer(
            tuple(record for one in found for record in one.records),
            _least([one.valid_s for one in found]),
        )

    async def _services(
        self, resolver: dns.asyncresolver.Resolver
    ) -> tuple[Sequence[_Service], float | None]:
        """Return the SRV records of the lowest priority number. Raises LookUpFailed.

        Weights are not used: replicas share by their load. A target "." means that the service is
        not there.
        """
        answer = await _query(resolver, self._name, "SRV")
        if isinstance(answer, LookUpFailed):
            raise answer
        services: list[_Service] = []
        for record in answer.records:
            priority, _, port, target = record.split()
            if target != "." and port != "0":
                services.append(_Service(int(priority), int(port), target))
        first = min((one.priority for one in services), default=0)
        return [one for one in services if one.priority == first][:MOST_TARGETS], answer.valid_s

    def _resolver(self) -> dns.asyncresolver.Resolver:
        """Read /etc/resolv.conf each time: it can change. Raises LookUpFailed."""
        try:
            resolver = dns.asyncresolver.Resolver(configure=self._server is None)
        except dns.exception.DNSException as exc:
            raise LookUpFailed(f"no DNS server is known: {exc}") from exc
        if self._server is not None:
            resolver.nameservers = [dns.nameserver.Do53Nameserver(*self._server)]
        resolver.timeout, resolver.lifetime = TIMEOUT_S, LIFETIME_S
        return resolver


async def _query(
    resolver: dns.asyncresolver.Resolver, name: str, kind: str
) -> _Answer | LookUpFailed:
    """Return the answer, empty if the name has no such record; or why there is none."""
    try:
        found = await resolver.resolve(
            name, kind, search=True, backend=dns.asyncbackend.get_backend("asyncio")
        )
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return _Answer()
    except (dns.exception.DNSException, OSError, UnicodeError) as exc:
        why = str(exc).strip() or type(exc).__name__
        return LookUpFailed(f"{kind} records of {name}: {why[:500]}")
    records = tuple([str(one) for one in cast("Iterable[object]", found)])
    # The shortest time to live of the answer's records, aliases included.
    return _Answer(records, float(found.chaining_result.minimum_ttl))


def _found(pairs: Sequence[tuple[str, int]], valid_s: float | None) -> LookUp:
    found: dict[HostPort, None] = {}
    refused: list[str] = []
    for address, port in pairs:
        if (why := refusal(address)) is not None:
            refused.append(f"{address} {why}")
        else:
            found[HostPort(host=address, port=port)] = None
    return LookUp(endpoints=tuple(found), refused=tuple(refused), valid_s=valid_s)


def _least(times: Sequence[float | None]) -> float | None:
    return min((one for one in times if one is not None), default=None)
