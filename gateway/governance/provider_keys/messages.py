"""What processes report of the keys of vendors, without the keys."""

from msgspec import Struct


class KeyRest(Struct, frozen=True, kw_only=True, tag=True):
    """A key cools down. Times are seconds of this machine's monotonic clock.

    provider, key: their names. limited_until: the vendor asked for it; busy_until: others are
    preferred; refused_until: its account is refused.
    """

    provider: str
    key: str
    limited_until: float
    busy_until: float
    refused_until: float


class KeyRests(Struct, frozen=True, kw_only=True, tag=True):
    """The last report of each key, for a process that starts later."""

    rests: tuple[KeyRest, ...] = ()
