"""Today's program opens the database and the spool of every release, and reads everything back."""

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec
import pytest

from strowger_gateway.gateway.storage.sql.schema import MIGRATIONS
from tests.releases.stored import (
    DATABASE,
    FOLDER,
    SECRETS,
    VIEWS,
    Json,
    Secrets,
    copied,
    opened,
    output,
    releases,
    spool_imported,
    views,
)

ROOT = Path(__file__).parents[2]
RELEASED = re.compile(r"^## (?P<version>\d+\.\d+\.\d+) - ", re.MULTILINE)


NEW_DEFAULTS = {
    # A key of config.yaml without max_priority; issued keys keep what was stored.
    ".keys[0].max_priority: stored 1, found 3",
}
"""What the configuration did not set, and newer versions set otherwise (CHANGELOG.md)."""


def missing(stored: Json, found: Json, path: str = "") -> list[str]:
    """What was stored and is not found: newer versions may add fields and audit rows only."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return [
            line
            for name, value in stored.items()
            for line in missing(value, found.get(name, "(absent)"), f"{path}.{name}")
        ]
    if isinstance(stored, list) and isinstance(found, list):
        grown = len(found) > len(stored) and path != ".audit"
        pairs = zip(stored, [*found, *["(absent)"] * len(stored)], strict=False)
        lines = [
            line
            for place, (before, now) in enumerate(pairs)
            for line in missing(before, now, f"{path}[{place}]")
        ]
        return [*lines, *([f"{path} has more entries"] if grown else [])]
    if path.endswith(".last_used") and str(stored) <= str(found):
        return []  # this test uses the key again
    return [] if stored == found else [f"{path}: stored {stored!r}, found {found!r}"]


@pytest.mark.anyio
@pytest.mark.parametrize("release", releases(), ids=lambda release: release.name)
async def test_what_a_release_stored_is_read_back(release: Path, tmp_path: Path) -> None:
    stored = cast(Json, json.loads((release / VIEWS).read_bytes()))
    secrets = msgspec.json.decode((release / SECRETS).read_bytes(), type=Secrets)
    config = copied(release, tmp_path / "copy")

    async with opened(config) as gateway:
        await spool_imported(config)
        found = await views(gateway, secrets)
        verified = await output(config, "audit", "--verify")

    assert set(missing(stored, found)) - NEW_DEFAULTS == set()
    assert "none was changed or removed" in verified
    with closing(sqlite3.connect(config.with_name(DATABASE))) as database:
        (version,) = database.execute("SELECT version FROM schema_version").fetchone()
    assert version == len(MIGRATIONS)


@pytest.mark.parametrize("release", releases(), ids=lambda release: release.name)
def test_a_stored_release_has_rows_of_every_kind(release: Path) -> None:
    stored: Mapping[str, Json] = json.loads((release / VIEWS).read_bytes())
    with closing(sqlite3.connect(f"file:{release / DATABASE}?immutable=1", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_schema")]
        rows = {
            name: database.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]
            for name in ("requests", "attempts", "feedback", "issued_keys", "stored_responses")
            if name in names
        }
    spooled = sum(path.stat().st_size for path in release.rglob("*.rows"))

    assert all(rows.values()), rows
    assert spooled > 1000
    assert all(stored.values())


def test_every_released_version_is_stored() -> None:
    released = RELEASED.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))

    assert set(released) - {path.name for path in FOLDER.iterdir()} == set(), (
        "run `python -m tests.releases.write` at the tag"
    )


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ({"a": [1, {"b": 2}], "new": 1}, 0),
        ({"a": [1, {"b": 3}]}, 1),
        ({"a": [1]}, 1),
        ({"a": [1, {"b": 2}, 3]}, 1),
        ({}, 1),
    ],
)
def test_what_is_lost_is_noticed(found: Json, lines: int) -> None:
    assert len(missing({"a": [1, {"b": 2}]}, found)) == lines
