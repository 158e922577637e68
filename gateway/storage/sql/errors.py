"""Errors of the store."""

from typing import Literal

from strowger_gateway.schemas.errors import Unavailable

StoreFault = Literal["unreachable", "full", "read_only", "denied"]


class StoreUnavailable(Unavailable):
    """The database cannot be reached or written, or takes too long; retry later.

    fault: which of these, as far as the database says.
    """

    code = "store_unavailable"
    fault: StoreFault = "unreachable"


class StoreFull(StoreUnavailable):
    """Nothing is written, because what room is left is for more important rows."""

    fault: StoreFault = "full"


class ConcurrentImport(StoreUnavailable):
    """Another importer has imported these rows; the database is reachable."""


class StoreRejected(ValueError):
    """The database rejects this; a retry does not help."""
