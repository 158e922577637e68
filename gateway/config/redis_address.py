"""Parse `store.redis_url`: one server, a service behind Sentinels, or a Cluster.

    redis://USER:PASSWORD@HOST:PORT/NUMBER                      and rediss://, unix:///SOCKET
    redis+sentinel://USER:PASSWORD@HOST:PORT,HOST/SERVICE/NUMBER  and rediss+sentinel://
    redis+cluster://USER:PASSWORD@HOST:PORT,HOST                and rediss+cluster://

What follows `?` is an option of redis-py, for example `ssl_ca_certs`; of Sentinels, also
`sentinel_username` and `sentinel_password`. https://redis.io/docs/latest/develop/reference/sentinel-clients/
"""

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct

from strowger_gateway.schemas.secret import Secret

REDIS = ("redis://", "rediss://", "unix://")
_PORTS: Mapping[str, int] = {"sentinel": 26379, "cluster": 6379}
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")


class RedisAddress(Struct, frozen=True, kw_only=True):
    """A parsed address.

    hosts:    of Sentinels, or of nodes of a Cluster; empty for one server.
    service:  the name under which the Sentinels know the master; "" otherwise.
    server:   URL for redis-py with the credentials, the database and the options of a data
              server. Its host is that of the server, or only the first of `hosts`.
    sentinel: user and password for the Sentinels themselves, by redis-py's names.
    """

    kind: Literal["server", "sentinel", "cluster"]
    server: Secret
    hosts: tuple[tuple[str, int], ...] = ()
    service: str = ""
    sentinel: Mapping[str, Secret] = {}


def redis_address(url: Secret) -> RedisAddress:
    """Raises ValueError with what to write; its message shows nothing of the address."""
    text = url.reveal()
    if text.startswith(REDIS):
        return RedisAddress(kind="server", server=url)
    scheme, _, kind = text.partition("://")[0].partition("+")
    if scheme not in {"redis", "rediss"} or kind not in _PORTS:
        raise ValueError(
            "must be redis://HOST, rediss://HOST, unix:///SOCKET, "
            "redis+sentinel://HOST,HOST/SERVICE or redis+cluster://HOST,HOST"
        )
    try:
        whole = urlsplit(text)
    except ValueError:
        raise ValueError(
            "not an address: write / ? # @ : [ and ] in the password as %XX, and IPv6 addresses "
            "in []"
        ) from None
    login, at, places = whole.netloc.rpartition("@")
    hosts = _hosts(places.split(","), _PORTS[kind])
    path = [unquote(part) for part in whole.path.strip("/").split("/") if part]
    options = parse_qsl(whole.query, keep_blank_values=True)
    own = {name: Secret(value) for name, value in options if name in _SENTINEL_OPTIONS}
    rest = urlencode([one for one in options if one[0] not in _SENTINEL_OPTIONS])
    host, port = hosts[0]
    base = f"{scheme}://{login}{at}{f'[{host}]' if ':' in host else host}:{port}"
    if kind == "cluster":
        if path not in ([], ["0"]):
            raise ValueError("a Redis Cluster only has database 0; remove what follows the hosts")
        if own:
            raise ValueError(f"{min(own)} belongs to redis+sentinel://; remove it")
        return RedisAddress(kind="cluster", server=Secret(f"{base}/0?{rest}"), hosts=hosts)
    if not path:
        raise ValueError(
            "the name of the master's service is missing; "
            "use redis+sentinel://HOST,HOST/SERVICE, as in `sentinel monitor SERVICE …`"
        )
    number = path[1] if len(path) == 2 else "0"
    if len(path) > 2 or not number.isdecimal():
        raise ValueError("only a database number may follow the service: /SERVICE/NUMBER")
    return RedisAddress(
        kind="sentinel",
        server=Secret(f"{base}/{number}?{rest}"),
        hosts=hosts,
        service=path[0],
        sentinel=own,
    )


def _hosts(places: Sequence[str], port: int) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for place in places:
        try:
            one = urlsplit(f"//{place}")
            host, given = one.hostname, one.port
        except ValueError:
            host = given = None
        if not host or (given is None and place.rpartition("]")[2].count(":")):
            raise ValueError(
                "each host must be HOST or HOST:PORT, separated by commas; IPv6 addresses in []"
            )
        found.append((host, given or port))
    return tuple(found)
