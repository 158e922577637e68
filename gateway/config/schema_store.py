"""Validate the addresses in `store`, and resolve the paths of the store and its spool."""

import re
from importlib.util import find_spec
from pathlib import Path
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


def check_store(config: Config, problems: Problems) -> None:
    """Check `store`. Messages never show addresses, because they may contain passwords."""
    store = config.store
    address = store.url.reveal()
    sqlite = address.startswith(SQLITE) and address != SQLITE
    if not (sqlite or address.startswith(POSTGRES)) and not problems.at(("store", "url")):
        problems.add(("store", "url"), "must be sqlite:///FILE or postgresql://HOST/NAME")
    elif sqlite and address.endswith(_MEMORY):
        problems.add(
            ("store", "url"),
            "an in-memory database is private to a process and lost when it exits; give a file",
        )
    former = store.moved_from
    if former is not None and not problems.at(("store", "moved_from")):
        if not former.reveal().startswith((SQLITE, *POSTGRES)):
            problems.add(
                ("store", "moved_from"), "must be sqlite:///FILE or postgresql://HOST/NAME"
            )
        elif former == store.url:
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
