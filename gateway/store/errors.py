"""Errors of the store."""

from schemas.errors import Unavailable


class StoreUnavailable(Unavailable):
    """The database cannot be reached, or takes too long; retry later."""

    code = "store_unavailable"


class ConcurrentImport(StoreUnavailable):
    """Another importer has imported these rows; the database is reachable."""


class StoreRejected(ValueError):
    """The database rejects this; a retry does not help."""
