"""The interval between polls that may take the store long."""

MAX_DUTY_CYCLE = 20.0
"""The wait after a poll is at least this many times as long as the poll takes."""


class PollingInterval:
    """The waits between consecutive polls: at least `every_s`.

    Polls take at most a twentieth of the time. A single slow poll (the database hung or restarted)
    says nothing about the next, so the shorter of the last two durations counts.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._took = 0.0

    def wait_s(self, took: float, *, unavailable: bool) -> float:
        """Return the seconds until the next poll.

        took: seconds that this poll took. unavailable: it failed, because the store is unreachable.
        """
        if unavailable:
            return max(self._every_s, took)
        takes, self._took = min(took, self._took), took
        return max(self._every_s, MAX_DUTY_CYCLE * takes)
