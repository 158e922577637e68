"""When a credential is replaced, when it expires, and when a failed fetch is retried: as values.

Times are readings of one monotonic clock, in seconds; `draw` is uniform in [0, 1).
"""

LONGEST_PAUSE_S = 60.0
MARGIN_S = 10.0
"""A credential that is valid for less than this may expire on its way."""

ASSUMED_LIFETIME_S = 300.0
"""Default if the endpoint gives none; RFC 6749 recommends that it does, without a default."""


def refresh_at(requested: float, lifetime_s: float, draw: float) -> float:
    """Return 75 to 85 % of the lifetime, so that many gateways do not fetch simultaneously."""
    return requested + lifetime_s * (0.75 + 0.1 * draw)


def expires_at(requested: float, lifetime_s: float) -> float:
    """Return a time slightly before the expiry: 10 s, or a tenth of a short lifetime."""
    return requested + lifetime_s - min(MARGIN_S, lifetime_s / 10)


def pause(failures: int, draw: float) -> float:
    """Return seconds until the next retry: at most 1, 2, 4 … 60, and at least half of that."""
    ceiling = min(LONGEST_PAUSE_S, 2.0 ** min(failures - 1, 16))
    return ceiling * (0.5 + 0.5 * draw)
