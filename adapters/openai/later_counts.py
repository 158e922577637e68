"""Token counts that a vendor sends several times within one answer."""

from msgspec.structs import replace

from strowger_gateway.schemas.events import Usage

_COUNTS = tuple(field for field in Usage.__struct_fields__ if field != "raw")


def continued(before: Usage | None, later: Usage) -> Usage:
    """Return the later counts, with the earlier ones that they lack.

    Counts of one answer never fall to nothing, so a later 0 or absence says that the vendor did not
    count there: the last frames of Workers AI and of some proxies repeat the totals with
    `cached_tokens: 0`.
    """
    if before is None:
        return later
    kept = {
        name: count
        for name in _COUNTS
        if (count := getattr(before, name)) and not getattr(later, name)
    }
    return replace(later, **kept) if kept else later
