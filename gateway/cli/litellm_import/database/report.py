"""Issue the keys with a configuration, and report what was done."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.cli.config_loading import Faults, faults_shown, load
from strowger_gateway.gateway.cli.litellm_import.database.found import People
from strowger_gateway.gateway.cli.litellm_import.database.writing import KeyWriter, WrittenKeys
from strowger_gateway.gateway.cli.litellm_import.ledger import Listed
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store


class _Entry(Struct, frozen=True, kw_only=True):
    path: str
    reason: str
    remedy: str


class _Key(Struct, frozen=True, kw_only=True):
    """A key without its digest. spend: US dollars."""

    name: str
    team: str
    user: str
    models: tuple[str, ...]
    disabled: bool
    spend: float


class _Report(Struct, frozen=True, kw_only=True):
    """written: `None` for a dry run."""

    keys: tuple[_Key, ...]
    teams: tuple[str, ...]
    written: WrittenKeys | None
    not_translated: tuple[_Entry, ...]


def issue_keys(people: People, path: Path, *, update: bool) -> WrittenKeys:
    """Write to the store of a configuration. Raises Faults."""
    config = load(path)
    with faults_shown():
        if config.auth.mode != "keys":
            raise Faults((f"{path}: auth.mode: set it to keys, or no key counts",))
        store = open_store(config.store.url)
        try:
            return KeyWriter(store, config, os_user(), update=update).write(people)
        except StoreUnavailable as exc:
            raise Faults((f"store.url: {exc.message}",)) from exc
        finally:
            store.close()


def lines_of(people: People, written: WrittenKeys | None) -> Iterator[str]:
    """Say in lines what was issued, or would be."""
    if written is None:
        yield (
            f"{len(people.keys)} keys, {len(people.teams)} teams; no key is issued yet: check the "
            "result, then run this with --write and --config"
        )
        return
    yield (
        f"{len(written.issued)} keys issued, {len(written.changed)} changed, "
        f"{len(written.same)} as they were; what {written.spent} keys, teams and users have spent "
        "is carried over"
    )
    if written.differ:
        names = ", ".join(written.differ[:20])
        yield f"{len(written.differ)} keys differ from LiteLLM's; --update changes them: {names}"


def write_report(
    path: Path, listed: Sequence[Listed], people: People | None, written: WrittenKeys | None
) -> None:
    """Raises Faults."""
    keys = () if people is None else people.keys
    report = _Report(
        keys=tuple(
            _Key(
                name=key.name,
                team=key.team,
                user=key.user,
                models=key.models,
                disabled=key.disabled,
                spend=key.spend,
            )
            for key in keys
        ),
        teams=() if people is None else tuple(str(team["name"]) for team in people.teams),
        written=written,
        not_translated=tuple(_Entry(path=a, reason=b, remedy=c) for a, b, c in listed),
    )
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    except OSError as exc:
        raise Faults((f"{path}: cannot write: {exc.strerror}",)) from exc
