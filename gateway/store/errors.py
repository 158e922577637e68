"""What can be wrong with a store."""

from schemas.errors import Unavailable


class StoreAway(Unavailable):
    """The database cannot be reached, or takes too long; ask again later."""

    code = "store_unavailable"


class Overtaken(StoreAway):
    """Another importer has taken these rows; nothing is away."""


class StoreRefused(ValueError):
    """The database will never take this."""
