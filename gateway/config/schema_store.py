"""Where the store and its spool are, and whether the addresses in `store` can be some."""

from pathlib import Path

import msgspec

from gateway.config.problems import Problems
from gateway.config.schema import Config, Store
from schemas.secret import Secret

SQLITE = "sqlite:///"
POSTGRES = ("postgresql://", "postgres://")
REDIS = ("redis://", "rediss://", "unix://")
SPOOL = "strowger-spool"
_MEMORY = ":memory:"


def check_store(store: Store, problems: Problems) -> None:
    """Addresses are never shown, for they may hold passwords."""
    address = store.url.reveal()
    sqlite = address.startswith(SQLITE) and address != SQLITE
    if not (sqlite or address.startswith(POSTGRES)) and not problems.at(("store", "url")):
        problems.add(("store", "url"), "begins neither with sqlite:///FILE nor with postgresql://")
    elif sqlite and address.endswith(_MEMORY):
        problems.add(
            ("store", "url"),
            "a database in memory is each process's own, and gone with it; give a file",
        )
    path = ("store", "redis_url")
    redis = store.redis_url
    if redis is not None and not redis.reveal().startswith(REDIS) and not problems.at(path):
        problems.add(path, "begins with none of redis://HOST, rediss://HOST and unix:///SOCKET")


def with_store_placed(config: Config, folder: Path) -> Config:
    """The configuration with its SQLite file and its spool as paths that start at `folder`."""
    store = config.store
    address, beside = store.url.reveal(), folder
    if address.startswith(SQLITE):
        file = folder / address.removeprefix(SQLITE)
        address, beside = f"{SQLITE}{file}", file.parent
    placed = msgspec.structs.replace(
        store, url=Secret(address), spool=store.spool or str(beside / SPOOL)
    )
    return msgspec.structs.replace(config, store=placed)
