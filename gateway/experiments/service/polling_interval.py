"""How often the store is asked for what may take it long."""

MAX_DUTY_CYCLE = 20.0
"""So many times as long as a look takes, there is none."""


class PollingInterval:
    """Of looks that follow one another, each `every_s` after the one before or later.

    They take a twentieth of the time at most. A look that took long once (the database hung
    meanwhile, or was started again) says nothing about the next: what two looks in a row took at
    least is what a look takes.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._took = 0.0

    def wait_s(self, took: float, *, away: bool) -> float:
        """Seconds until the next look. took: seconds of this one. away: of the store, in vain."""
        if away:
            return max(self._every_s, took)
        takes, self._took = min(took, self._took), took
        return max(self._every_s, MAX_DUTY_CYCLE * takes)
