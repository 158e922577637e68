"""Export the rows of an experiment as CSV or Parquet, page by page."""

import csv
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from strowger_gateway.gateway.storage.sql.experiments.unit_pages import UnitTotal
from strowger_gateway.schemas.errors import InvalidConfig

COLUMNS = (
    "experiment",
    "metric",
    "unit",
    "epoch",
    "variant",
    "count",
    "total",
    "least",
    "most",
    "excluded",
)
"""Columns, in order: epoch, count and excluded (0 or 1) are 64-bit integers, total, least and most
are doubles, the rest texts."""

NO_PARQUET = (
    "parquet needs pyarrow; pip install 'strowger-gateway[parquet]', or export CSV, which needs "
    "no extra package"
)
Pages = Iterable[Sequence[UnitTotal]]


def write_csv(experiment: str, pages: Pages, file: IO[str]) -> int:
    """Write CSV by RFC 4180 with a header; return the number of rows.

    Numbers read back as the same doubles.
    """
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    count = 0
    for page in pages:
        writer.writerows((experiment, *_row(one)) for one in page)
        count += len(page)
    return count


def write_parquet(experiment: str, pages: Pages, path: Path) -> int:
    """Write a row group per page; return the number of rows. Raises InvalidConfig without pyarrow.

    https://arrow.apache.org/docs/python/generated/pyarrow.parquet.ParquetWriter.html
    """
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as exc:
        raise InvalidConfig((NO_PARQUET,)) from exc
    kinds: dict[str, Any] = {
        **dict.fromkeys(("epoch", "count", "excluded"), arrow.int64()),
        **dict.fromkeys(("total", "least", "most"), arrow.float64()),
    }
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in COLUMNS])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for page in pages:
            rows = zip(*((experiment, *_row(one)) for one in page), strict=True)
            columns = dict(zip(COLUMNS, map(list, rows), strict=True))
            writer.write_table(arrow.table(columns, schema=schema))
            count += len(page)
    return count


def _row(one: UnitTotal) -> tuple[str, str, int, str, int, float, float, float, int]:
    place = (one.metric, one.unit, one.epoch, one.variant)
    return (*place, one.count, one.total, one.least, one.most, int(one.excluded))
