"""What can be wrong with a store."""

from schemas.errors import Unavailable


class StoreUnavailable(Unavailable):
    """The database cannot be reached, or takes too long; ask again later."""

    code = "store_unavailable"


class ConcurrentImport(StoreUnavailable):
    """Another importer has taken these rows; nothing is away."""


class StoreRejected(ValueError):
    """The database will never take this."""
