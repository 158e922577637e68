"""Store every text that a version of a prompt has had, with when gateways had it.

A version that keeps its text has one row for ever. Records name a text by prompt, version and
digest, so that it can be read again after its file is gone.
"""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.schema.prompts.section import Prompt
from strowger_gateway.gateway.storage.sql.database import Database, Session

_COLUMNS = "prompt, version, digest, content, first_seen, last_seen"
_Row = tuple[str, str, str, str, float, float]


class StoredText(Struct, frozen=True, kw_only=True):
    """One text of one version. first_seen, last_seen: of gateways that had it, Unix seconds."""

    prompt: str
    version: str
    digest: str
    text: str
    first_seen: float
    last_seen: float

    @property
    def ref(self) -> str:
        """NAME@VERSION."""
        return f"{self.prompt}@{self.version}"


def record_texts(database: Database, prompts: Sequence[Prompt], at: float) -> list[StoredText]:
    """Note that a gateway has these prompts. at: Unix seconds.

    Returns the texts that were stored before for versions whose text is a new one now: versions
    that have changed. Raises StoreUnavailable.
    """
    changed: list[StoredText] = []
    with database.writing() as session:
        known = {(one.prompt, one.version): one for one in _texts(session)}
        rows = {(one.prompt, one.version, one.digest) for one in _texts(session)}
        for prompt in prompts:
            for version in prompt.versions:
                place = (prompt.name, version.name)
                if (*place, version.digest) in rows:
                    sql = """UPDATE prompt_texts SET last_seen = ?
                        WHERE prompt = ? AND version = ? AND digest = ? AND last_seen < ?"""
                    session.run(sql, at, *place, version.digest, at)
                    continue
                if place in known:
                    changed.append(known[place])
                sql = f"INSERT INTO prompt_texts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
                session.run(sql, *place, version.digest, version.text, at, at)
    return changed


def stored_texts(database: Database, prompt: str = "") -> list[StoredText]:
    """Return all texts, or those of one prompt: by prompt, and in the order of `first_seen`.

    Raises StoreUnavailable.
    """
    with database.reading() as session:
        return [one for one in _texts(session) if not prompt or one.prompt == prompt]


def _texts(session: Session) -> list[StoredText]:
    sql = f"SELECT {_COLUMNS} FROM prompt_texts ORDER BY prompt, first_seen, version, digest"
    return [
        StoredText(
            prompt=row[0],
            version=row[1],
            digest=row[2],
            text=row[3],
            first_seen=row[4],
            last_seen=row[5],
        )
        for row in session.rows(_Row, sql)
    ]
