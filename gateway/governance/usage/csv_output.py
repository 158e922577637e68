"""A report of usage as CSV, for spreadsheets. https://www.rfc-editor.org/rfc/rfc4180"""

import csv
import io
from typing import Final

from strowger_gateway.gateway.governance.usage.report import UsageReport, Used

_COLUMNS: Final = tuple(one for one in Used.__struct_fields__ if not one.endswith("_nano_usd"))
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make spreadsheets run a cell. https://owasp.org/www-community/attacks/CSV_Injection"""


_BLANKS: Final = " \n\v\f\xa0\ufeff"
"""What some spreadsheets leave out before they look at a cell."""


def as_csv(report: UsageReport) -> str:
    """Return a line with names and one per row, without a total: spreadsheets add up themselves.

    Costs are exact decimal numbers. Names that a spreadsheet would run get a leading apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow((*report.by, *_COLUMNS))
    for row in report.rows:
        names = (harmless(row.text(one)) for one in report.by)
        writer.writerow((*names, *(getattr(row, one) for one in _COLUMNS)))
    return out.getvalue()


def harmless(text: str) -> str:
    """Return a cell that no spreadsheet runs: as text, after an apostrophe."""
    return f"'{text}" if text.lstrip(_BLANKS).startswith(_FORMULA) else text
