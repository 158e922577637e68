"""Rows as Parquet: one file per day of a page, with the same schema every time.

https://arrow.apache.org/docs/python/generated/pyarrow.parquet.write_table.html
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from io import BytesIO
from typing import Any

from strowger_gateway.gateway.storage.parquet.tables import Kind, RecordTable
from strowger_gateway.gateway.storage.sql.database import Value
from strowger_gateway.schemas.errors import InvalidConfig

NO_PARQUET = "the export needs pyarrow; pip install 'strowger-gateway[parquet]'"


def arrow(module: str = "pyarrow") -> Any:  # pyright: ignore[reportExplicitAny]  pyarrow has no types
    """Raises InvalidConfig without pyarrow."""
    try:
        return import_module(module)
    except ImportError as exc:
        raise InvalidConfig((NO_PARQUET,)) from exc


def by_day(
    table: RecordTable, rows: Sequence[Sequence[Value]]
) -> Mapping[str, list[Sequence[Value]]]:
    """Return the rows of each day, by date in UTC."""
    found: defaultdict[str, list[Sequence[Value]]] = defaultdict(list)
    place = table.place("time")
    for row in rows:
        found[_moment(row[place]).strftime("%Y-%m-%d")].append(row)
    return found


def parquet(table: RecordTable, rows: Sequence[Sequence[Value]]) -> bytes:
    """Return a Parquet file, compressed with zstd."""
    pa, writer = arrow(), arrow("pyarrow.parquet")
    types = {
        "text": pa.string(),
        "time": pa.timestamp("us", tz="UTC"),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "json": pa.string(),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in table.columns.items()])
    columns = [
        pa.array([_cell(kind, one) for one in values], types[kind])
        for kind, values in zip(table.columns.values(), zip(*rows, strict=True), strict=True)
    ]
    buffer = BytesIO()
    writer.write_table(pa.Table.from_arrays(columns, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()


def _cell(kind: Kind, value: Value) -> object:
    if value is None:
        return None
    match kind:
        case "time":
            return _moment(value)
        case "bool":
            return bool(value)
        case "float":
            return float(value)
        case "int" | "text" | "json":
            return value


def _moment(value: Value) -> datetime:
    assert isinstance(value, (int, float))
    return datetime.fromtimestamp(value, UTC)
