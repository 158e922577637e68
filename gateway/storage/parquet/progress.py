"""What the exporting process reports to the leader, which does not load the export."""

from collections.abc import Mapping

from msgspec import Struct


class ExportProgress(Struct, frozen=True, kw_only=True):
    """The figures of one exporting process since its start.

    rows: by table. failing: the last run failed. ended: when everything was exported last, by any
    gateway, Unix seconds; 0: not yet, or not known.
    """

    rows: Mapping[str, int]
    failing: bool
    ended: float
