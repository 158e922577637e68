"""Time zones by their names. Their module is imported late: few gateways have budgets."""

from datetime import tzinfo


def zone_named(name: str) -> tzinfo:
    """name: of the IANA database. Raises ValueError, OSError or LookupError for an unknown one."""
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
