"""Export what the report of an experiment is computed from, as tables of CSV or Parquet."""

import csv
from collections.abc import Generator, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, get_type_hints

from msgspec import Struct
from msgspec.structs import astuple

from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.experiments.export_rows import (
    EpochVariant,
    ExportedVote,
    KeyUnit,
    epoch_rows,
    key_pages,
    vote_pages,
)
from strowger_gateway.gateway.storage.sql.experiments.unit_pages import UnitTotal, pages
from strowger_gateway.schemas.errors import InvalidConfig

TABLES: Final[Mapping[str, type[Struct]]] = {
    "units": UnitTotal,
    "epochs": EpochVariant,
    "keys": KeyUnit,
    "votes": ExportedVote,
}
"""The tables and their rows. A table has the column `experiment`, and one for each field."""

NO_PARQUET = (
    "parquet needs pyarrow; pip install 'strowger-gateway[parquet]', or export CSV, which needs "
    "no extra package"
)
Pages = Iterable[Sequence[Struct]]


def pages_of(session: Session, experiment: str, table: str) -> Generator[Sequence[Struct]]:
    """Yield the rows of a table in pages. table: a key of TABLES."""
    match table:
        case "units":
            yield from pages(session, experiment)
        case "epochs":
            yield epoch_rows(session, experiment)
        case "keys":
            yield from key_pages(session, experiment)
        case _:
            yield from vote_pages(session, experiment)


def columns_of(table: str) -> tuple[str, ...]:
    """Return the columns of a table, in order."""
    return ("experiment", *TABLES[table].__struct_fields__)


def write_csv(experiment: str, table: str, pages: Pages, file: IO[str]) -> int:
    """Write CSV by RFC 4180 with a header; return the number of rows.

    Numbers read back as the same doubles.
    """
    writer = csv.writer(file)
    writer.writerow(columns_of(table))
    count = 0
    for page in pages:
        writer.writerows((experiment, *astuple(one)) for one in page)
        count += len(page)
    return count


def write_parquet(experiment: str, table: str, pages: Pages, path: Path) -> int:
    """Write a row group per page; return the number of rows. Raises InvalidConfig without pyarrow.

    https://arrow.apache.org/docs/python/generated/pyarrow.parquet.ParquetWriter.html
    """
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as exc:
        raise InvalidConfig((NO_PARQUET,)) from exc
    types = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    hints = {"experiment": str, **get_type_hints(TABLES[table])}
    schema = arrow.schema([(name, types[hints[name]]) for name in columns_of(table)])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for page in filter(None, pages):
            rows = zip(*((experiment, *astuple(one)) for one in page), strict=True)
            columns = dict(zip(columns_of(table), map(list, rows), strict=True))
            writer.write_table(arrow.table(columns, schema=schema))
            count += len(page)
    return count
