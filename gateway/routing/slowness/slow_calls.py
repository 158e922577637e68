"""Evidence that a backend exceeds the operator's `slow_s`: the cumulative sum test of failures.

It grows by 1 with each slow attempt and shrinks by slow_rate / (1 - slow_rate) with each other one
that has ended, so that it drifts upwards only if more than `slow_rate` of the attempts are slow.
"""


class SlowCalls:
    """evidence: at least 0. ended: attempts that had ended at the last slow one."""

    __slots__ = ("_at", "_ended", "_evidence")

    def __init__(self) -> None:
        self._evidence = 0.0
        self._ended = 0
        self._at = float("-inf")

    def add(self, ended: int, now: float, rate: float, window_s: float) -> float:
        """Add a slow attempt; return the evidence.

        ended: attempts that have ended ever. The slow one before this is among them by now, or is
        soon. Evidence expires when no slow attempt follows within the window.
        """
        if now - self._at > window_s:
            self._evidence = 0.0
        others = max(0, ended - self._ended - 1)
        if others and self._evidence:
            lost = others * rate / (1.0 - rate) if rate < 1.0 else self._evidence
            self._evidence = max(0.0, self._evidence - lost)
        self._evidence += 1.0
        self._ended, self._at = ended, now
        return self._evidence

    def clear(self) -> None:
        """Start from zero, as a circuit does that has closed."""
        self._evidence = 0.0
