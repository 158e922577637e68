"""The database that is copied: gateways may use it until the last pass, which admits no writer."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.storage.copying import pages
from strowger_gateway.gateway.storage.copying.faults import CopyFault
from strowger_gateway.gateway.storage.copying.pages import KeySpan
from strowger_gateway.gateway.storage.copying.tables import Cells, CopiedTable, tables
from strowger_gateway.gateway.storage.sql.database import Database, Session
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import absent, driver_of
from strowger_gateway.gateway.storage.sql.schema import (
    MIGRATIONS,
    MOVED,
    VERSION,
    check_version,
    digest_of,
)
from strowger_gateway.gateway.storage.sql.sqlite import SqliteDriver
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret

_NO_TABLE: Final = ("no such table", "does not exist")
_OCTETS: Final = "OCTET_LENGTH({})"
_OCTETS_OF_SQLITE: Final = "LENGTH(CAST({} AS BLOB))"
_NOT_UTF8: Final = "could not decode to utf-8"


class CopySource:
    """Reads the tables of one database. moved: it is closed, in favour of the target."""

    def __init__(self, url: Secret, target: str) -> None:
        """target: the name of the target, which a closed source must have moved to.

        Raises InvalidConfig for a malformed address or tables that cannot be copied, and
        StoreUnavailable.
        """
        if file := absent(url):
            raise CopyFault(f"--from: there is no {file}")
        self._driver = driver_of(url)
        self._target = target
        self.where = self._driver.where
        self.database = Database(self._driver, self._check)
        address = url.reveal()
        self._lenient = (
            Database(SqliteDriver(Path(address.removeprefix(SQLITE)), lenient=True), _nothing)
            if address.startswith(SQLITE)
            else None
        )
        self._held: Session | None = None
        self.moved = False
        self.database.prepare()

    def _check(self, session: Session) -> None:
        """Raises InvalidConfig for tables that this program does not know."""
        try:
            found = session.rows(tuple[object, ...], VERSION)
        except self._driver.errors as exc:
            if not any(words in str(exc) for words in _NO_TABLE):
                raise
            found = []
        match found:
            case [(int(version), str(mark))] if mark.endswith(f"{MOVED}{self._target}"):
                self.moved = True
                found = [(version, mark.partition(MOVED)[0])]
            case _:
                pass
        if not found:
            raise CopyFault(f"--from: {self.where} has no tables of a gateway")
        try:
            version = check_version(found[0], self.where)
        except InvalidConfig as exc:
            told = [one.replace("store.url: ", "--from: ", 1) for one in exc.problems]
            raise CopyFault(*told) from None
        if version < len(MIGRATIONS):
            raise CopyFault(
                f"--from: {self.where} has older tables; start this version's gateway on it once"
            )

    def read(self, table: CopiedTable, span: KeySpan, limit: int | None = None) -> list[Cells]:
        """Return rows, those of a damaged SQLite file with surrogates for bytes that are no text.

        Raises StoreUnavailable.
        """
        try:
            if self._held is not None:
                return pages.read(self._held, table, span, limit)
            with self.database.reading() as session:
                return pages.read(session, table, span, limit)
        except (StoreUnavailable, *self._driver.errors) as exc:
            if self._lenient is None or _NOT_UTF8 not in str(exc).lower():
                raise
        with self._lenient.reading() as session:
            return pages.read(session, table, span, limit)

    def fitting(self, table: CopiedTable, span: KeySpan) -> list[int]:
        """Return how many of the next rows to read at a time. Raises StoreUnavailable."""
        octets = _OCTETS if self._lenient is None else _OCTETS_OF_SQLITE
        if self._held is not None:
            return pages.fitting(self._held, table, span, octets)
        with self.database.reading() as session:
            return pages.fitting(session, table, span, octets)

    def counts(self, which: Sequence[CopiedTable]) -> dict[str, int]:
        if self._held is not None:
            return {table.name: pages.count(self._held, table) for table in which}
        with self.database.reading() as session:
            return {table.name: pages.count(session, table) for table in which}

    def imports(self) -> int:
        """Return the number of the last import."""
        (batches,) = [table for table in tables() if table.name == "import_batch"]
        found = self.read(batches, KeySpan())
        number = found[0][0] if found else 0
        return number if isinstance(number, int) else 0

    @contextmanager
    def held(self) -> Generator[None]:
        """Let no other process write until the block ends.

        Raises StoreUnavailable, and InvalidConfig if it has moved to another database.
        """
        with self.database.writing() as session:
            session.run(self._driver.closing)
            self._check(session)  # another run may have closed it for another target
            self._held = session
            try:
                yield
            finally:
                self._held = None

    def close_for(self, target: str) -> None:
        """Mark the tables as moved when `held` ends: no gateway writes them from then on."""
        if self._held is None:
            raise RuntimeError("the source is not held")
        digest = digest_of(MIGRATIONS)
        self._held.run("UPDATE schema_version SET digest = ?", f"{digest}{MOVED}{target}")

    def close(self) -> None:
        self.database.close()
        if self._lenient is not None:
            self._lenient.close()


def _nothing(session: Session) -> None:
    """The tables were checked by the strict connection."""
