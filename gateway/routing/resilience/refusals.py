"""How long a backend gets no requests because it refused the operator's account, key or model.

The first refusal sets it aside for `FIRST_S`; each further one, once that time is over, doubles it.
`retry-after` is a lower bound, and `breaker.max_retry_after_s` the maximum. A few refusals that at
least two requests have met open the circuit, so that one probe decides when the time is over.
"""

FIRST_S = 60.0
"""The time after the first refusal, in seconds: accounts are topped up within minutes."""

TO_OPEN, REQUESTS_TO_OPEN = 3, 2
"""The refusals in a row that open the circuit, and from how many requests at least."""


class Refusals:
    """The refusals since the last answer. Times are seconds of the clock.

    at:    when the last one came, or the answer that ended them. until: when requests may be sent.
    count: how many; confirmed: they suffice to open the circuit.
    """

    __slots__ = ("_request", "_requests", "_seconds", "at", "count", "until")

    def __init__(self) -> None:
        self.at = self.until = float("-inf")
        self.count = self._requests = 0
        self._request: str = ""
        self._seconds = 0.0

    @property
    def confirmed(self) -> bool:
        """Whether they are enough, from enough requests."""
        return self.count >= TO_OPEN and self._requests >= REQUESTS_TO_OPEN

    def add(self, now: float, request: str, retry_after: float | None, longest_s: float) -> float:
        """Count one; return for how long the backend is set aside from now on, seconds.

        request: its id. Refusals of requests that were in flight at the same time count, but only
        one of them prolongs the time.
        """
        self.count += 1
        if request != self._request:
            self._requests, self._request = self._requests + 1, request
        if now >= self.until or not self._seconds:
            self._seconds = min(2.0 * self._seconds or FIRST_S, max(longest_s, 0.0))
        self.at = now
        return min(max(self._seconds, retry_after or 0.0), longest_s)

    def clear(self, now: float) -> None:
        """The backend has answered."""
        if self.count or self.until > now:
            self.at = now
        self.until = float("-inf")
        self.count = self._requests = 0
        self._request = ""
        self._seconds = 0.0

    def merge(self, at: float, until: float) -> None:
        """Adopt what another process of this gateway knows, if it is newer."""
        if at <= self.at:
            return
        if until == float("-inf"):
            self.clear(at)
        self.at, self.until = at, until
