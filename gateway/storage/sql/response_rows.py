"""Stored responses: their rows, the conversations that they form, and the bytes of each API key.

A conversation is a tree: each row names the response that it continues, and its first response.
Every change of a key's rows locks that key's row in `stored_response_keys` first, so that changes
of one key come one after another, in PostgreSQL too, and those of different keys do not wait.
"""

from collections import defaultdict
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from strowger_gateway.gateway.storage.sql.database import Database, Session

MOST_ROWS: Final = 1_000
"""Responses of one conversation that a request can continue."""

MOST_FOUND: Final = 500
"""Responses that the references of one request can be in."""

_ROOM: Final = 0.01
"""Share of a key's bytes that is deleted at least: one search of its rows makes room for many."""

_PAGE: Final = 100
_BATCH_ROWS: Final = 1_000
_COLUMNS: Final = "id, key, time, previous, root, input, output, resource, item_bytes, bytes"
CHAIN: Final = """WITH RECURSIVE chain (id, key, previous, bytes, depth) AS (
    SELECT id, key, previous, item_bytes, 1 FROM stored_responses WHERE id = ? AND key = ?
    UNION ALL
    SELECT r.id, r.key, r.previous, r.item_bytes, chain.depth + 1 FROM chain
    JOIN stored_responses r ON r.id = chain.previous AND r.key = chain.key
    WHERE chain.depth <= ?)"""
"""The responses that one continues, it first: its id, the key, and the most of them.

With the key as a value in both parts, PostgreSQL would read all rows of the key while it has no
statistics of the table.
"""

_OLDEST: Final = """SELECT root, CAST(SUM(bytes) AS BIGINT) FROM stored_responses
    WHERE key = ? AND root <> ? GROUP BY root ORDER BY MAX(time), root LIMIT ?"""


class StoredResponse(Struct, frozen=True, kw_only=True, gc=False):
    """One response, and what was new in its request; the fields are the columns, in order.

    time:     when it was stored, Unix seconds.
    previous: the response that it continues, "" for none. root: the conversation's first response.
    input, output: JSON; the client's items (a text or a list), and the model's (a list).
    resource: JSON, with an empty list in place of the output.
    item_bytes: of input and output as UTF-8. bytes: of the resource, too.
    """

    id: str
    key: str
    time: float
    previous: str
    root: str
    input: str
    output: str
    resource: str
    item_bytes: int
    bytes: int


class StoredTurn(Struct, frozen=True, kw_only=True, gc=False):
    """The items of one response; see StoredResponse."""

    id: str
    input: str
    output: str


class StoredConversation(Struct, frozen=True, kw_only=True, gc=False):
    """What leads to a response, oldest first.

    missing:  the id of a response in it that is not stored any more, "" for none.
              turns has those after it.
    too_long: it has more responses, or bytes, than asked for; turns is empty.
    """

    root: str = ""
    turns: Sequence[StoredTurn] = ()
    missing: str = ""
    too_long: bool = False


class StoredChain:
    """The responses of one conversation, oldest first, of which `read` returns one at a time.

    ids: those that are stored; empty if there are more than MOST_ROWS. sizes: bytes of the items
    of each.
    """

    def __init__(self, session: Session, key: str, rows: Sequence[tuple[str, int]]) -> None:
        self.ids: Sequence[str] = [id for id, _ in rows]
        self.sizes: Sequence[int] = [size for _, size in rows]
        self._session = session
        self._key = key

    def read(self, place: int) -> StoredTurn:
        """Return the items of one response. Blocks."""
        ((given, made),) = self._session.rows(
            tuple[str, str],
            "SELECT input, output FROM stored_responses WHERE key = ? AND id = ?",
            self._key,
            self.ids[place],
        )
        return StoredTurn(id=self.ids[place], input=given, output=made)


class ResponseRows:
    """The stored responses in one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, rows: Sequence[StoredResponse], most_bytes: int) -> list[bool]:
        """Store all rows in one transaction; return for each whether there was room for it.

        most_bytes: of one key. Conversations that were continued least recently make room; the
        row's own conversation does not. Raises StoreRejected, and stores nothing.
        """
        by_key: defaultdict[str, list[StoredResponse]] = defaultdict(list)
        for row in rows:
            by_key[row.key].append(row)
        refused: set[str] = set()
        with self._database.writing(alone=False) as session:
            for key, own in sorted(by_key.items()):
                size = sum([row.bytes for row in own])
                if _charge(session, key, size) <= most_bytes:
                    _insert(session, own)
                    continue
                _charge(session, key, -size)
                refused.update([row.id for row in own if not _add(session, row, most_bytes)])
        return [row.id not in refused for row in rows]

    def find(self, key: str, id: str) -> StoredResponse | None:
        with self._database.reading() as session:
            found = _select(session, "key = ? AND id = ?", key, id)
        return found[0] if found else None

    def resource(self, key: str, id: str) -> tuple[str, str] | None:
        """Return the resource and the output of a response, as stored."""
        sql = "SELECT resource, output FROM stored_responses WHERE key = ? AND id = ?"
        with self._database.reading() as session:
            found = session.rows(tuple[str, str], sql, key, id)
        return found[0] if found else None

    def exists(self, key: str, id: str) -> bool:
        sql = "SELECT COUNT(*) FROM stored_responses WHERE id = ? AND key = ?"
        with self._database.reading() as session:
            return session.rows(tuple[int], sql, id, key)[0][0] > 0

    @contextmanager
    def chain(self, key: str, id: str) -> Generator[StoredChain | None]:
        """Yield what leads to a response, to be read in pieces within the block.

        `None` if the key has no such response.
        """
        with self._database.reading() as session:
            found = _links(session, key, id)
            few = found if len(found) <= MOST_ROWS else []
            rows = [(one, size) for one, _, size in reversed(few)]
            yield StoredChain(session, key, rows) if found else None

    def conversation(self, key: str, id: str, most_bytes: int) -> StoredConversation | None:
        """Return what leads to a response, and the response. `None` if the key has none such.

        most_bytes: of all items together.
        """
        with self._database.reading() as session:
            found = _links(session, key, id)
            if not found:
                return None
            if len(found) > MOST_ROWS or sum(size for _, _, size in found) > most_bytes:
                return StoredConversation(too_long=True)
            first, missing, _ = found[-1]
            turns = session.rows(
                tuple[str, str, str],
                f"{CHAIN} SELECT r.id, r.input, r.output FROM chain"
                " JOIN stored_responses r ON r.id = chain.id ORDER BY chain.depth DESC",
                id,
                key,
                MOST_ROWS,
            )
        return StoredConversation(
            root=first,
            missing=missing,
            turns=[StoredTurn(id=one, input=given, output=made) for one, given, made in turns],
        )

    def turns(self, key: str, ids: Sequence[str], most_bytes: int) -> Sequence[StoredTurn] | None:
        """Return the items of those responses that the key has; `None` if they are too long.

        ids: at most MOST_FOUND.
        """
        among = f"key = ? AND id IN ({', '.join('?' * len(ids))})"
        with self._database.reading() as session:
            sizes = session.rows(
                tuple[int],
                f"SELECT item_bytes FROM stored_responses WHERE {among}",
                key,
                *ids,
            )
            if sum(size for (size,) in sizes) > most_bytes:
                return None
            rows = session.rows(
                tuple[str, str, str],
                f"SELECT id, input, output FROM stored_responses WHERE {among}",
                key,
                *ids,
            )
        return [StoredTurn(id=one, input=given, output=made) for one, given, made in rows]

    def total(self) -> int:
        """Return the bytes of all keys together."""
        sql = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM stored_response_keys"
        with self._database.reading() as session:
            return session.rows(tuple[int], sql)[0][0]

    def room(self) -> tuple[int, int] | None:
        """See `Database.room`."""
        return self._database.room()

    def free_up(self, needed: int, kept: Collection[str]) -> int:
        """Delete conversations of the key that has the most, and return how many bytes they had.

        Those that were continued least recently, until that is `needed`, or the key has no others.
        kept: conversations that stay, by their first response.
        """
        freed = 0
        with self._database.writing(alone=False) as session:
            sql = "SELECT key FROM stored_response_keys ORDER BY bytes DESC, key LIMIT 1"
            for (key,) in session.rows(tuple[str], sql):
                _charge(session, key, 0)
                freed = _remove_oldest(session, key, "", needed, kept)
                _charge(session, key, -freed)
        return freed

    def forget_keys(self) -> None:
        """Delete the sums of keys that have no responses: tokens can name any number of callers."""
        with self._database.reading() as session:
            sql = "SELECT key FROM stored_response_keys WHERE bytes = 0 LIMIT ?"
            empty = session.rows(tuple[str], sql, _BATCH_ROWS)
        for (key,) in empty:  # one at a time, because others lock several keys in order
            with self._database.writing(alone=False) as session:
                sql = "DELETE FROM stored_response_keys WHERE key = ? AND bytes = 0"
                session.run(sql, key)

    def remove(self, key: str, ids: Sequence[str]) -> int:
        """Delete those responses that the key has; return how many."""
        with self._database.writing(alone=False) as session:
            _charge(session, key, 0)
            return _remove(session, key, ids)

    def remove_before(self, time: float) -> int:
        """Delete what was stored before, a few at a time. time: Unix seconds."""
        removed = 0
        while True:
            with self._database.reading() as session:
                old = session.rows(
                    tuple[str, str],
                    "SELECT key, id FROM stored_responses WHERE time < ? LIMIT ?",
                    time,
                    _BATCH_ROWS,
                )
            by_key: defaultdict[str, list[str]] = defaultdict(list)
            for key, id in old:
                by_key[key].append(id)
            removed += sum(self.remove(key, ids) for key, ids in by_key.items())
            if len(old) < _BATCH_ROWS:
                return removed


def _links(session: Session, key: str, id: str) -> list[tuple[str, str, int]]:
    """Return id, previous and bytes of a response and of those that it continues, it first.

    One more than MOST_ROWS if there are more. The index stored_responses_chain has all of it, so
    that no items are read: SQLite stores these columns behind them.
    """
    return session.rows(
        tuple[str, str, int],
        f"{CHAIN} SELECT id, previous, bytes FROM chain ORDER BY depth",
        id,
        key,
        MOST_ROWS,
    )


def _add(session: Session, row: StoredResponse, most_bytes: int) -> bool:
    used = _charge(session, row.key, row.bytes)
    if used > most_bytes:
        _make_room(session, row, used - most_bytes, int(most_bytes * _ROOM))
        if _charge(session, row.key, 0) > most_bytes:
            _charge(session, row.key, -row.bytes)
            return False
    _insert(session, [row])
    return True


def _insert(session: Session, rows: Sequence[StoredResponse]) -> None:
    session.many(
        f"INSERT INTO stored_responses ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [astuple(row) for row in rows],
    )


def _charge(session: Session, key: str, size: int) -> int:
    """Add to the bytes of a key, and return them. Its other changes wait for this transaction."""
    session.run(
        "INSERT INTO stored_response_keys (key, bytes) VALUES (?, ?) ON CONFLICT (key)"
        " DO UPDATE SET bytes = stored_response_keys.bytes + excluded.bytes",
        key,
        size,
    )
    sql = "SELECT bytes FROM stored_response_keys WHERE key = ?"
    return session.rows(tuple[int], sql, key)[0][0]


def _make_room(session: Session, row: StoredResponse, needed: int, wanted: int) -> None:
    """Delete the key's oldest conversations but the row's own. needed, wanted: bytes.

    Nothing is deleted if that does not free what is needed.
    """
    sql = (
        "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM stored_responses"
        " WHERE key = ? AND root <> ?"
    )
    if session.rows(tuple[int], sql, row.key, row.root)[0][0] < needed:
        return
    freed = _remove_oldest(session, row.key, row.root, max(needed, wanted), ())
    _charge(session, row.key, -freed)


def _remove_oldest(session: Session, key: str, own: str, wanted: int, kept: Collection[str]) -> int:
    """Delete the key's oldest conversations until `wanted` bytes are free; return how many are.

    own, kept: conversations that stay, by their first response.
    """
    freed = passed = 0
    while freed < wanted:
        oldest = session.rows(tuple[str, int], _OLDEST, key, own, _PAGE + passed)
        for root, size in oldest[passed:]:
            if freed >= wanted:
                return freed
            if root in kept:
                passed += 1
                continue
            session.run("DELETE FROM stored_responses WHERE key = ? AND root = ?", key, root)
            freed += size
        if len(oldest) < _PAGE + passed:
            return freed
    return freed


def _remove(session: Session, key: str, ids: Sequence[str]) -> int:
    among = f"key = ? AND id IN ({', '.join('?' * len(ids))})"
    sql = f"SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM stored_responses WHERE {among}"
    size = session.rows(tuple[int], sql, key, *ids)[0][0]
    _charge(session, key, -size)
    return session.run(f"DELETE FROM stored_responses WHERE {among}", key, *ids)


def _select(session: Session, where: str, *values: str) -> list[StoredResponse]:
    rows = session.rows(
        tuple[str, str, float, str, str, str, str, str, int, int],
        f"SELECT {_COLUMNS} FROM stored_responses WHERE {where}",
        *values,
    )
    names = StoredResponse.__struct_fields__
    return [msgspec.convert(dict(zip(names, row, strict=True)), StoredResponse) for row in rows]
