"""When a credential is replaced, when it has expired, and when a failed try is repeated: as values.

Times are readings of one monotonic clock, in seconds; `draw` is uniform in [0, 1).
"""

LONGEST_PAUSE_S = 60.0
MARGIN_S = 10.0
"""A credential that is valid for less than this may have expired when it arrives."""

ASSUMED_LIFETIME_S = 300.0
"""Where the endpoint does not say; RFC 6749 recommends that it does, and nothing else."""


def refresh_at(asked: float, lifetime_s: float, draw: float) -> float:
    """At 75 to 85 % of the lifetime, so that many gateways do not ask at once."""
    return asked + lifetime_s * (0.75 + 0.1 * draw)


def expires_at(asked: float, lifetime_s: float) -> float:
    """A little early: up to 10 s, or a tenth of a short life."""
    return asked + lifetime_s - min(MARGIN_S, lifetime_s / 10)


def pause(failures: int, draw: float) -> float:
    """Seconds until the next try after so many failed ones: 1, 2, 4 … 60, each by half or more."""
    ceiling = min(LONGEST_PAUSE_S, 2.0 ** min(failures - 1, 16))
    return ceiling * (0.5 + 0.5 * draw)
