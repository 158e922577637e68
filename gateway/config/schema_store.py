"""Validate the addresses in `store`, and resolve the paths of the store and its spool."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from strowger_gateway.gateway.config.problems import Found, Problems
from strowger_gateway.gateway.config.redis_address import redis_address
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.store import RecordExport
from strowger_gateway.schemas.secret import Secret

SQLITE = "sqlite:///"
POSTGRES = ("postgresql://", "postgres://")
SPOOL = "strowger-spool"
S3 = "s3://"
_MEMORY = ":memory:"
_FILES = re.compile(
    r"(?<=[?&])(ssl_ca_certs|ssl_certfile|ssl_keyfile|sslrootcert|sslcert|sslkey|sslcrl|passfile)"
    r"=([^&#]*)"
)
"""Options of redis-py's and libpq's addresses that name a file. The authority `system` is none.
https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS"""


_NOT_POSTGRES = (
    "not a PostgreSQL address; use postgresql://USER:PASSWORD@HOST:PORT/NAME, with / ? # @ : and % "
    "in the password as %XX, and after ? only options of libpq"
)
_PLACES = re.compile(r"(?P<hosts>[^/?]*)(?:/(?P<name>[^?]*))?(?:\?(?P<options>.*))?", re.DOTALL)
_UNWRITTEN = re.compile(r"%(?![0-9A-Fa-f]{2})|[\s\0]")
_PORT = re.compile(r"(\[[^]]*\]|[^:\[\]]*)(:[0-9]*)?")
_OPTION = re.compile(r"[A-Za-z_]+=[^=]*")


class PostgresAddress(NamedTuple):
    """The parts of postgresql://LOGIN@HOSTS/NAME?OPTIONS, as they are written; "" for none."""

    login: str
    hosts: str
    name: str
    options: str


def postgres_address(address: str) -> PostgresAddress:
    """Take an address apart as libpq does: a password may have `[`, `#` and `?`, but not `/`.

    Raises ValueError, whose message shows nothing of the address: where a character of a password
    should have been written as %XX, any part may be a piece of the password.
    https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
    """
    rest = address.partition("://")[2]
    login, at, places = rest.partition("@")
    if not at or "/" in login:
        login, places = "", rest
    found = _PLACES.fullmatch(places)
    if found is None:
        raise ValueError(_NOT_POSTGRES)
    hosts, name, options = (found[part] or "" for part in ("hosts", "name", "options"))
    if (
        not address.startswith(POSTGRES)
        or "@" in hosts + name
        or _UNWRITTEN.search(rest)
        or not all(_PORT.fullmatch(host) for host in hosts.split(","))
        or not all(_OPTION.fullmatch(one) for one in options.split("&") if options)
    ):
        raise ValueError(_NOT_POSTGRES)
    return PostgresAddress(login, hosts, name, options)


def _check_database(address: str, path: tuple[str, ...], problems: Problems) -> None:
    if problems.at(path):
        return
    sqlite = address.startswith(SQLITE) and address != SQLITE
    if not (sqlite or address.startswith(POSTGRES)):
        problems.add(path, "must be sqlite:///FILE or postgresql://HOST/NAME")
    elif not sqlite:
        try:
            postgres_address(address)
        except ValueError as exc:
            problems.add(path, str(exc))


def check_store(config: Config, problems: Problems) -> None:
    """Check `store`. Messages never show addresses, because they may contain passwords."""
    store = config.store
    address = store.url.reveal()
    sqlite = address.startswith(SQLITE) and address != SQLITE
    _check_database(address, ("store", "url"), problems)
    if sqlite and address.endswith(_MEMORY):
        problems.add(
            ("store", "url"),
            "an in-memory database is private to a process and lost when it exits; give a file",
        )
    former = store.moved_from
    if former is not None:
        _check_database(former.reveal(), ("store", "moved_from"), problems)
        if former == store.url and not problems.at(("store", "moved_from")):
            problems.add(("store", "moved_from"), "is store.url itself; remove it")
    if store.export is not None:
        _check_export(store.export, problems)
    path = ("store", "redis_url")
    if store.redis_url is not None and not problems.at(path):
        try:
            redis_address(store.redis_url)
        except ValueError as exc:
            problems.add(path, str(exc))
        else:
            _check_files(store.redis_url, problems)


def _check_export(export: RecordExport, problems: Problems) -> None:
    where, path = export.to.reveal(), ("store", "export", "to")
    bucket = where.startswith(S3) and where.removeprefix(S3)[:1] not in {"", "/", "?"}
    if not problems.at(path) and (not where or ("://" in where and not bucket)):
        problems.add(path, "must be a folder or s3://BUCKET/PREFIX")
    if find_spec("pyarrow") is None:
        problems.add(("store", "export"), "needs pyarrow; pip install 'strowger-gateway[parquet]'")


def _check_files(url: Secret, problems: Problems) -> None:
    """Record each missing file that the address of Redis names."""
    for name, value in _FILES.findall(url.reveal()):
        file = unquote(value)
        if file != "system" and not (problems.folder / file).exists():
            problems.add(("store", "redis_url"), f"{name}: no such file: ", Found(file))


def _with_files_placed(url: Secret, folder: Path) -> Secret:
    """Return an address whose files start at the folder of the configuration."""

    def placed(found: re.Match[str]) -> str:
        file = unquote(found[2])
        return found[0] if file == "system" else f"{found[1]}={quote(str(folder / file))}"

    return Secret(_FILES.sub(placed, url.reveal()))


def _placed(url: Secret, folder: Path) -> Secret:
    """Return the address of a database with its paths resolved at a folder."""
    address = url.reveal()
    if address.startswith(SQLITE):
        return Secret(f"{SQLITE}{folder / address.removeprefix(SQLITE)}")
    return _with_files_placed(url, folder)


def with_store_placed(config: Config, folder: Path) -> Config:
    """Return the configuration with all paths in `store` resolved at `folder`."""
    store = config.store
    url, former = _placed(store.url, folder), store.moved_from
    neighbour = folder
    if former is not None:
        former = _placed(former, folder)
    first = (former or url).reveal()  # a move keeps the spool where it is
    if first.startswith(SQLITE):
        neighbour = Path(first.removeprefix(SQLITE)).parent
    redis = store.redis_url
    export = store.export
    if export is not None and "://" not in export.to.reveal():
        target = Secret(str(folder / export.to.reveal()))
        export = msgspec.structs.replace(export, to=target)
    placed = msgspec.structs.replace(
        store,
        url=url,
        moved_from=former,
        redis_url=None if redis is None else _with_files_placed(redis, folder),
        spool=store.spool or str(neighbour / SPOOL),
        export=export,
    )
    return msgspec.structs.replace(config, store=placed)
