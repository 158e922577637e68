"""Open a connection: DNS, TCP and TLS, under one deadline."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.backends.upstream.origin import Origin
from strowger_gateway.gateway.backends.upstream.own_limits import is_shortage, shortage
from strowger_gateway.gateway.backends.upstream.socket_options import SOCKET_OPTIONS
from strowger_gateway.gateway.backends.upstream.wire.connection import HttpConnection
from strowger_gateway.gateway.platform.names.connecting import connect_to, first_of, interleaved
from strowger_gateway.gateway.platform.names.look_up import Found
from strowger_gateway.gateway.platform.names.look_up import SocketAddress as Address
from strowger_gateway.gateway.platform.names.names import NAMES
from strowger_gateway.schemas.errors import UpstreamTimeout, UpstreamUnreachable

Resolve = Callable[[Origin], Awaitable[Found]]
"""The addresses of an origin, each with its family, in the order in which to try them."""

NO_ADDRESS: Final = "no connection in time: the DNS has not returned its address"
NO_CONNECTION: Final = "no connection in time (TCP and TLS)"

SLOW_S: Final = 1.0
"""Seconds after which a second attempt overtakes one in progress: a lost packet is repeated after a
second, and one of several servers behind an address may hang while others do not."""

HANGS_S: Final = 3.0
"""Seconds without a connection from which a timeout says something about the server."""


async def resolve(origin: Origin) -> Found:
    """Return the addresses of the origin's host. Raises OSError."""
    return await NAMES.addresses(origin.host, origin.port)


def resolve_at(host: str, port: int) -> Resolve:
    """Return a resolver that finds the addresses of another host, for any origin."""

    async def resolved(origin: Origin) -> Found:
        return await resolve(replace(origin, host=host, port=port))

    return resolved


class Dialer:
    """Opens connections to one origin; each gets its protocol from `make`.

    Addresses are tried as RFC 8305 has it, the one that answered last time first: another one
    begins each quarter of a second, and the first that answers is used. A connection that is not
    there after SLOW_S, TLS included, is overtaken by a second attempt, from the next address on.

    Once a connection has used up its time, the others in progress have SLOW_S each, because what
    hangs for one hangs for all. So have further ones, while one that no request waits for has the
    full time, until one succeeds.
    """

    def __init__(
        self,
        origin: Origin,
        context: ssl.SSLContext | None,
        make: Callable[[], HttpConnection],
        *,
        upstream: str,
        resolve: Resolve = resolve,
        doubt: Callable[[str], object] = NAMES.doubt,
        slow_s: float = SLOW_S,
        hangs_s: float = HANGS_S,
    ) -> None:
        """doubt: called with the host whose addresses did not answer."""
        self._origin = origin
        self._context = context
        self._make = make
        self._upstream = upstream
        self._resolve = resolve
        self._doubt = doubt
        self._slow_s, self._hangs_s = slow_s, hangs_s
        self._answered: Address | None = None
        self._dials: dict[asyncio.Timeout, float] = {}  # when those in progress began
        self._hanging = False
        self._probe: asyncio.Task[None] | None = None

    async def dial(self, by: float) -> HttpConnection:
        """Raises UpstreamUnreachable, UpstreamTimeout at `by`, or ConnectionsInUse if the system
        opens no socket. Cancelling closes it.
        """
        begun = asyncio.get_running_loop().time()
        limited = self._hanging
        if limited and self._probe is None:
            self._probe = asyncio.create_task(self._prove(by))
        scope = asyncio.timeout_at(min(by, begun + self._slow_s) if limited else by)
        found: Found | None = None
        try:
            async with scope:
                self._dials[scope] = begun
                found = await self._resolve(self._origin)
                connection = await self._overtaken(interleaved(found, self._answered))
        except OSError as exc:
            if is_shortage(exc):
                raise shortage(self._upstream, exc) from exc
            if found is not None:
                self._doubt(self._origin.host)
            if isinstance(exc, TimeoutError) and scope.expired():
                if not limited:
                    self._hang(begun)
                step = NO_ADDRESS if found is None else NO_CONNECTION
                raise UpstreamTimeout(step, upstream=self._upstream) from exc
            self._hanging = False
            reason, detail = self._reason(exc)
            raise UpstreamUnreachable(reason, upstream=self._upstream, detail=detail) from exc
        finally:
            self._dials.pop(scope, None)
        self._hanging = False
        return connection

    async def _prove(self, by: float) -> None:
        """Find out whether connections still hang, without a request that waits for it."""
        try:
            async with asyncio.timeout_at(by):
                found = await self._resolve(self._origin)
                connection = await self._overtaken(interleaved(found, self._answered))
        except TimeoutError:
            return  # they do
        except OSError:
            self._hanging = False  # they fail at once: the next request reports it
        else:
            self._hanging = False
            connection.abort()
        finally:
            self._probe = None

    def _hang(self, begun: float) -> None:
        """A dial that had its full time has used it up: shorten the others."""
        now = asyncio.get_running_loop().time()
        if now - begun < self._hangs_s:
            return  # its request was in a hurry, which shows nothing
        self._hanging = True
        for scope, since in self._dials.items():
            end = scope.when()
            if end is not None and not scope.expired():
                scope.reschedule(min(end, max(now, since + self._slow_s)))

    async def _overtaken(self, found: Found) -> HttpConnection:
        """Return the connection of the first attempt, or of a second one that overtakes it."""
        turned = [*found[1:], *found[:1]]
        return await first_of(
            [partial(self._open, found), partial(self._open, turned)],
            self._slow_s,
            HttpConnection.abort,
            on_failure=False,
        )

    async def _open(self, found: Found) -> HttpConnection:
        """Connect to the first address that answers, and shake hands."""
        sock = await connect_to(found, SOCKET_OPTIONS)
        address: Address = sock.getpeername()
        _, connection = await asyncio.get_running_loop().create_connection(
            self._make,
            sock=sock,
            ssl=self._context,
            server_hostname=None if self._context is None else self._origin.certified_name,
        )
        self._answered = address
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
