"""Bind a spool to one store, so that the records of two stores never mix.

The folder has a file, `store`, with the identity of the store that its records wait for. The first
gateway that finds no such file writes it, and so takes over a spool of a version before it had one.
A gateway with another store uses a folder of its own inside.

The identity has no password and no user, so that a change of either keeps the spool. That of a
SQLite file is its path from the spool, so that both can be moved together.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

from strowger_gateway.gateway.config.schema_store import SQLITE, postgres_address
from strowger_gateway.schemas.secret import Secret

_log = logging.getLogger("strowger.records")

MARKER: Final = "store"
_OTHERS: Final = "of-"
_FORMER: Final = "formerly "
_PORT: Final = "5432"
_SELECTS: Final = ("service", "options")
"""Parameters of PostgreSQL's addresses that can choose another database or schema."""

_TEXT: Final = """{id}
The records in this folder wait for the store {where}.
If store.url is only a new address of the same database, delete this file and restart.
"""


class ForeignSpool(OSError):
    """The spool belongs to another store."""


def store_id(url: Secret, folder: Path) -> str:
    """Return the identity of a store for the spool in a folder: 16 hexadecimal digits."""
    from hashlib import sha256  # late: the importing process loads this file, and no OpenSSL

    return sha256(os.fsencode(_place(url, folder))).hexdigest()[:16]


def own_folder(
    url: Secret, folder: Path, *, moved_from: Secret | None = None, announces: bool = False
) -> Path:
    """Return the folder for the records of a store: `folder`, unless it is another store's.

    Marks a folder without an owner. A folder that cannot be written now is marked with the first
    file in it, see `claim`. announces: log that; for one process of a gateway.
    moved_from: the store that this one continues, whose folder it takes over.
    """
    own = store_id(url, folder)
    if moved_from is not None:
        _take_over(folder, own, store_id(moved_from, folder), _place(url, folder), announces)
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
    try:
        claim(folder, own, _place(url, folder))
    except ForeignSpool as exc:
        inner = folder / f"{_OTHERS}{own}"
        if announces:
            waiting = any(folder.glob("*.rows"))
            more = "; records of the other store wait there for its own gateway" if waiting else ""
            _log.warning("%s; using %s%s", exc, inner, more)
        return inner
    except OSError as exc:
        if announces:
            _log.error("cannot mark the spool %s as that of store.url: %s", folder, exc)
    return folder


def claim(folder: Path, own: str, where: str = "of store.url") -> None:
    """Mark a folder as the spool of this store. where: its address, for readers of the marker.

    Raises ForeignSpool if it is another's, OSError if it cannot be read, or has no marker and
    cannot be written.
    """
    marker = folder / MARKER
    try:
        found = marker.read_text(errors="replace")
    except FileNotFoundError:
        found = _marked(marker, _TEXT.format(id=own, where=where))
    if (owner := found.partition("\n")[0]) and own not in {owner, *_former(found)}:
        raise ForeignSpool(f"the spool {folder} belongs to another store (see {marker})")


def _former(text: str) -> list[str]:
    """Return the earlier owners: their gateways may still write, until they are restarted."""
    return [
        line.removeprefix(_FORMER) for line in text.splitlines()[1:] if line.startswith(_FORMER)
    ]


def _take_over(folder: Path, own: str, former: str, where: str, announces: bool) -> None:
    """Make the folder of a former store the own one, with what was recorded apart before."""
    marker = folder / MARKER
    with suppress(OSError):
        found = marker.read_text(errors="replace")
        if found.partition("\n")[0] != former:
            return
        earlier = "".join(f"{_FORMER}{one}\n" for one in dict.fromkeys([former, *_former(found)]))
        head, _, rest = _TEXT.format(id=own, where=where).partition("\n")
        draft = marker.with_name(f"{marker.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
        draft.write_text(f"{head}\n{earlier}{rest}", errors="surrogateescape")
        draft.chmod(0o600)
        inner = folder / f"{_OTHERS}{own}"
        for path in (*inner.glob("*.rows"), *inner.glob("audit/*.rows")):
            path.rename(folder / path.relative_to(inner))
        draft.replace(marker)
        if announces:
            _log.info("the spool %s is that of store.url now; it was of store.moved_from", folder)


def _marked(marker: Path, text: str) -> str:
    """Create the marker whole, and return it; if another process was faster, return its marker."""
    draft = marker.with_name(f"{marker.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(fd, "w", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, marker)
    except FileExistsError:
        return marker.read_text(errors="replace")
    finally:
        draft.unlink(missing_ok=True)
    return text


def _place(url: Secret, folder: Path) -> str:
    address = url.reveal()
    if address.startswith(SQLITE):
        file = os.path.realpath(address.removeprefix(SQLITE))
        return f"sqlite:{os.path.relpath(file, os.path.realpath(folder))}"
    parts = postgres_address(address)
    named = dict(parse_qsl(parts.options))
    given = parts.hosts or named.get("host", "")
    ports = named.get("port", _PORT).split(",")
    hosts = [
        one if _has_port(one) else f"{one}:{ports[min(at, len(ports) - 1)]}"
        for at, one in enumerate(given.lower().split(","))
    ]
    user = parts.login.partition(":")[0] or named.get("user", "")
    name = unquote(parts.name) or named.get("dbname", "") or unquote(user)
    chosen = "".join(f" {key}={named[key]}" for key in _SELECTS if key in named)
    return f"postgresql:{','.join(sorted(hosts))}/{name}{chosen}"


def _has_port(host: str) -> bool:
    """Return whether a host has a port; one in brackets is an IPv6 address."""
    return ":" in host.rpartition("]")[2]
