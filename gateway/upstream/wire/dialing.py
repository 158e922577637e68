"""Open a connection: DNS, TCP and TLS, under one deadline."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from gateway.upstream.origin import Origin
from gateway.upstream.socket_options import SOCKET_OPTIONS
from gateway.upstream.wire.connection import HttpConnection
from schemas.errors import UpstreamTimeout, UpstreamUnreachable

Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""An address as socket.getaddrinfo returns it."""
Resolve = Callable[[Origin], Awaitable[Sequence[tuple[int, Address]]]]
"""The addresses of an origin, each with its family, in the order in which to try them."""


async def resolve(origin: Origin) -> Sequence[tuple[int, Address]]:
    """Return the addresses from the system's resolver. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def resolve_at(host: str, port: int) -> Resolve:
    """Return a resolver that finds the addresses of another host, for any origin."""

    async def resolved(origin: Origin) -> Sequence[tuple[int, Address]]:
        return await resolve(replace(origin, host=host, port=port))

    return resolved


class Dialer:
    """Opens connections to one origin; each gets its protocol from `make`.

    Addresses are tried one after another, the one that answered last time first. Each but the
    last may use half of the remaining time, so a network that drops one address family costs time
    but no requests. TLS is attempted only with the first that answers.
    """

    def __init__(
        self,
        origin: Origin,
        context: ssl.SSLContext | None,
        make: Callable[[], HttpConnection],
        *,
        upstream: str,
        resolve: Resolve = resolve,
    ) -> None:
        self._origin = origin
        self._context = context
        self._make = make
        self._upstream = upstream
        self._resolve = resolve
        self._answered: Address | None = None

    async def dial(self, by: float) -> HttpConnection:
        """Raises UpstreamUnreachable, or UpstreamTimeout at `by`. Cancelling closes the socket."""
        scope = asyncio.timeout_at(by)
        try:
            async with scope:
                return await self._started(await self._reach(by))
        except OSError as exc:
            if isinstance(exc, TimeoutError) and scope.expired():
                problem = "no connection in time (DNS, TCP and TLS together)"
                raise UpstreamTimeout(problem, upstream=self._upstream) from exc
            reason, detail = self._reason(exc)
            raise UpstreamUnreachable(reason, upstream=self._upstream, detail=detail) from exc

    async def _reach(self, by: float) -> socket.socket:
        """Return a socket connected to the first address that answers."""
        clock = asyncio.get_running_loop().time
        found = sorted(await self._resolve(self._origin), key=lambda one: one[1] != self._answered)
        problem = OSError("the name has no addresses")
        for turn, (family, address) in enumerate(found, 1):
            share = None if turn == len(found) else (clock() + by) / 2
            try:
                async with asyncio.timeout_at(share):
                    sock = await _connected(family, address)
            except OSError as exc:
                problem = exc
            else:
                self._answered = address
                return sock
        raise problem

    async def _started(self, sock: socket.socket) -> HttpConnection:
        _, connection = await asyncio.get_running_loop().create_connection(
            self._make,
            sock=sock,
            ssl=self._context,
            server_hostname=self._origin.host if self._context is not None else None,
        )
        return connection

    def _reason(self, exc: OSError) -> tuple[str, str]:
        """Return the reason for the client, without addresses, and the one for the log."""
        where = f"{self._origin.host} port {self._origin.port}"
        match exc:
            case socket.gaierror():
                return "its address is not known", (
                    f"no address for {self._origin.host}: {exc.strerror}"
                )
            case ssl.SSLCertVerificationError():
                return "its certificate is not accepted", (
                    f"the certificate of {where} is not accepted: {exc.verify_message}"
                )
            case ssl.SSLError():
                return "no TLS", f"no TLS with {where}: {exc.reason or exc}"
            case _:
                return "no connection", f"no connection to {where}: {exc.strerror or exc}"


async def _connected(family: int, address: Address) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        for option in SOCKET_OPTIONS:
            sock.setsockopt(*option)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
