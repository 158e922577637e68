"""Clients of redis-py for one server, a master behind Sentinels, and a Cluster.

All run without redis-py's retries: a command whose answer is late must not run twice, and the
caller decides what happens in the meantime. https://redis.readthedocs.io/en/stable/
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from strowger_gateway.gateway.config.redis_address import RedisAddress, redis_address
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret

ROUND_S: Final = 1.0
"""Timeout of one round trip on a possibly busy machine, seconds."""

CONNECT_S: Final = 2.0
"""Timeout of the first round trip, which connects, seconds."""

DISCOVERY_S: Final = 5.0
"""The same where Sentinels or nodes are called one after the other until one answers."""

HOST_S: Final = 0.5
"""Timeout for each of several hosts, one of which may be a machine that is down, seconds."""


_SCANNED: Final = 500
"""Keys that a server looks at per round."""


class Pipeline(Protocol):
    """The part of redis-py's pipelines that we use; redis-py's own types are less exact."""

    def execute_command(self, *words: str | bytes) -> object: ...
    async def execute(self, *, raise_on_error: bool) -> list[object]: ...


class Client(Protocol):
    """A client that connects with its first command.

    where: the address without a password. connect_s: timeout of the round that connects, seconds.
    sharded: all keys of one command must be in one hash slot.
    """

    where: str
    connect_s: float
    sharded: bool

    def pipeline(self) -> Pipeline: ...

    def keys(self, pattern: str) -> AsyncIterator[bytes]:
        """Yield the keys that match a glob, of all nodes; a key may come twice.

        https://redis.io/docs/latest/commands/scan/
        """
        ...

    async def hang_up(self) -> None:
        """Close all connections; the next command opens others, and looks for the master again."""
        ...


def open_client(url: Secret) -> Client:
    """Raises InvalidConfig for an address that is malformed, or that redis-py cannot parse."""
    try:
        address = redis_address(url)
    except ValueError as exc:
        raise InvalidConfig((f"store.redis_url: {exc}",)) from None
    try:
        match address.kind:
            case "server":
                return _Server(address)
            case "sentinel":
                return _Sentinels(address)
            case "cluster":
                return _Cluster(address)
    except (ValueError, TypeError):
        raise InvalidConfig(
            (
                "store.redis_url: not a Redis address; use redis://USER:PASSWORD@HOST:PORT/NUMBER, "
                "with / ? # @ : and % in the password as %XX, and after ? only options of redis-py",
            )
        ) from None


class _Server:
    """One server."""

    connect_s = CONNECT_S
    sharded = False

    def __init__(self, address: RedisAddress) -> None:
        from_url = cast("_FromUrl", Redis.from_url)  # pyright: ignore[reportUnknownMemberType]  its **kwargs have no types
        self._client = from_url(
            address.server.reveal(),
            socket_timeout=ROUND_S,
            socket_connect_timeout=CONNECT_S,
            retry=_once(),
            protocol=2,
        )
        self._client.connection_pool.make_connection()
        known = self._client.connection_pool.connection_kwargs
        self.where = (
            str(known["path"])
            if "path" in known
            else f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
        )

    def pipeline(self) -> Pipeline:
        return self._client.pipeline(transaction=False)

    def keys(self, pattern: str) -> AsyncIterator[bytes]:
        return self._client.scan_iter(match=pattern, count=_SCANNED)

    async def hang_up(self) -> None:
        await self._client.connection_pool.disconnect()


class _Sentinels:
    """The master of a service: the Sentinels are asked for it whenever a connection opens."""

    connect_s = DISCOVERY_S
    sharded = False

    def __init__(self, address: RedisAddress) -> None:
        options = _options(address)
        tls = {name: value for name, value in options.items() if name.startswith("ssl")}
        shared = {"socket_timeout": HOST_S, "socket_connect_timeout": HOST_S, "protocol": 2}
        login = {
            name.removeprefix("sentinel_"): value.reveal()
            for name, value in address.sentinel.items()
        }
        self._sentinel = cast("_NewSentinel", Sentinel)(
            address.hosts, sentinel_kwargs={**shared, **tls, **login, "retry": _once()}
        )
        self._client = self._sentinel.master_for(
            address.service,
            **{**options, **shared, "socket_timeout": ROUND_S, "retry": _once()},
        )
        self._client.connection_pool.make_connection()
        self.where = f"{_listed(address)}/{address.service}"

    def pipeline(self) -> Pipeline:
        return self._client.pipeline(transaction=False)

    def keys(self, pattern: str) -> AsyncIterator[bytes]:
        return self._client.scan_iter(match=pattern, count=_SCANNED)

    async def hang_up(self) -> None:
        for one in (self._client, *self._sentinel.sentinels):
            await one.connection_pool.disconnect()


class _Cluster:
    """A Cluster: the first command reads from one of the nodes which node has which slots."""

    connect_s = DISCOVERY_S
    sharded = True

    def __init__(self, address: RedisAddress) -> None:
        options = _options(address)
        del options["db"]
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        self._client = cast("_NewCluster", RedisCluster)(
            startup_nodes=nodes,
            socket_timeout=ROUND_S,
            socket_connect_timeout=HOST_S,
            retry=_once(),
            protocol=2,
            **options,
        )
        self.where = _listed(address)

    def pipeline(self) -> Pipeline:
        return self._client.pipeline()

    def keys(self, pattern: str) -> AsyncIterator[bytes]:
        return self._client.scan_iter(match=pattern, count=_SCANNED)

    async def hang_up(self) -> None:
        await self._client.aclose()


def _once() -> Retry:
    return Retry(NoBackoff(), 0)


def _listed(address: RedisAddress) -> str:
    return ",".join(f"{host}:{port}" for host, port in address.hosts)


def _options(address: RedisAddress) -> dict[str, object]:
    """Return credentials, database and options as redis-py's arguments."""
    found: dict[str, object] = {"db": 0, **parse_url(address.server.reveal())}
    for name in ("host", "port", "retry", "socket_timeout", "socket_connect_timeout", "protocol"):
        found.pop(name, None)
    if found.pop("connection_class", None) is SSLConnection:
        found["ssl"] = True
    return found


class _Pool(Protocol):
    connection_kwargs: Mapping[str, object]

    def make_connection(self) -> object: ...
    async def disconnect(self) -> None: ...


class _Redis(Protocol):
    connection_pool: _Pool

    def pipeline(self, *, transaction: bool) -> Pipeline: ...
    def scan_iter(self, *, match: str, count: int) -> AsyncIterator[bytes]: ...


class _FromUrl(Protocol):
    def __call__(
        self,
        url: str,
        *,
        socket_timeout: float,
        socket_connect_timeout: float,
        retry: Retry,
        protocol: int,
    ) -> _Redis: ...


class _SentinelManager(Protocol):
    sentinels: list[_Redis]

    def master_for(self, service_name: str, **options: object) -> _Redis: ...


class _NewSentinel(Protocol):
    def __call__(
        self, sentinels: object, *, sentinel_kwargs: Mapping[str, object]
    ) -> _SentinelManager: ...


class _RedisCluster(Protocol):
    def pipeline(self) -> Pipeline: ...
    def scan_iter(self, *, match: str, count: int) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class _NewCluster(Protocol):
    def __call__(self, *, startup_nodes: list[ClusterNode], **options: object) -> _RedisCluster: ...
