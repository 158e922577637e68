"""What processes report of the keys of vendors, without the keys."""

from msgspec import Struct
from msgspec.structs import replace


class KeyRest(Struct, frozen=True, kw_only=True, tag=True):
    """A key cools down, or works again. Times are seconds of this machine's monotonic clock.

    provider, key: their names. digest: of its secret. works: it has answered, so its account is not
    refused any more. limited_until: the vendor asked for it; busy_until: others are
    preferred; refused_until: its account is refused.
    """

    provider: str
    key: str
    digest: bytes
    works: bool
    limited_until: float
    busy_until: float
    refused_until: float


def later(rest: KeyRest, before: KeyRest | None) -> KeyRest:
    """Return a report together with an earlier one about the same name."""
    if before is None or before.digest != rest.digest:
        return rest
    return replace(
        rest,
        limited_until=max(rest.limited_until, before.limited_until),
        busy_until=max(rest.busy_until, before.busy_until),
        refused_until=rest.refused_until
        if rest.works
        else max(rest.refused_until, before.refused_until),
    )


class KeyRests(Struct, frozen=True, kw_only=True, tag=True):
    """The last report of each key, for a process that starts later."""

    rests: tuple[KeyRest, ...] = ()
