"""One key of a pool: what it uses, and how long it cools down.

A key cools down by itself, and its backend does not: after a 429 for as long as the vendor says, or
else for a second, and twice as long with each further one; after a refusal of the account (401,
402, a credit that is used up) for a minute, then 2, 4, and so on up to an hour. A refusal of a
model is remembered for that model alone. An answer ends all of these but the pause that the vendor
named.
"""

from typing import Final

from strowger_gateway.gateway.backends.upstream.key_pool.minute import Minute

LONGEST_S: Final = 3600.0
"""The longest rest, whatever a vendor says."""

REFUSED_S: Final = 60.0
"""The rest after the first refusal; each further one doubles it."""

BUSY_S, LONGEST_BUSY_S = 1.0, 60.0
"""Other keys are preferred for this long after a 429 without retry-after; each doubles it."""

UNFIT_S: Final = 60.0
"""How long a key is not asked for a model that it may not use, while another key is left."""

_MOST_UNFIT: Final = 512
"""Models that are remembered: clients choose the names at a wildcard."""

NEVER: Final = float("-inf")
_DOUBLINGS: Final = 6


class PooledKey:
    """Times are the clock's seconds.

    digest: of its secret, so that another key of the same name is another one.
    weight: its share of the requests, above 0. requests, tokens: its limits per minute; `None`:
    not known. in_flight: calls. sent: by outcome, ever.
    limited_until: the vendor asked for that. busy_until: others are preferred. refused_until: its
    account is refused.
    """

    __slots__ = (
        "_busy_count",
        "_refusals",
        "_unfit",
        "busy_until",
        "digest",
        "in_flight",
        "limited_until",
        "name",
        "refused_until",
        "requests",
        "sent",
        "tokens",
        "used_requests",
        "used_tokens",
        "weight",
    )

    def __init__(
        self,
        name: str,
        weight: float,
        requests: int | None = None,
        tokens: int | None = None,
        digest: bytes = b"",
    ) -> None:
        self.name, self.weight, self.digest = name, weight, digest
        self.requests, self.tokens = requests, tokens
        self.in_flight = 0
        self.sent: dict[str, int] = {}
        self.used_requests, self.used_tokens = Minute(), Minute()
        self.limited_until = self.busy_until = self.refused_until = NEVER
        self._busy_count = self._refusals = 0
        self._unfit: dict[str, float] = {}

    def begin(self, at: float) -> None:
        """A call is sent with it."""
        self.in_flight += 1
        if self.requests is not None:
            self.used_requests.add(at, 1)

    def end(self, outcome: str) -> None:
        """The call has ended. outcome: `ok`, `cancelled`, or the error's code."""
        self.in_flight -= 1
        self.sent[outcome] = self.sent.get(outcome, 0) + 1

    def succeed(self, model: str, at: float) -> bool:
        """The vendor has answered with it; return whether that ends a refusal of its account."""
        ends = at < self.refused_until
        if ends:
            self.refused_until = NEVER
        if self._busy_count or self._refusals:
            self._busy_count = self._refusals = 0
            self.busy_until = self.refused_until = NEVER
        if self._unfit:
            self._unfit.pop(model, None)
        return ends

    def limit(self, at: float, retry_after: float | None, draw: float) -> None:
        """The vendor sent 429. retry_after: seconds. draw: jitter, uniform in [0, 1)."""
        if retry_after is not None:
            self.limited_until = max(self.limited_until, at + min(retry_after, LONGEST_S))
        elif at >= self.busy_until:
            seconds = min(BUSY_S * 2.0**self._busy_count, LONGEST_BUSY_S)
            self._busy_count = min(self._busy_count + 1, _DOUBLINGS)
            self.busy_until = at + seconds * (0.5 + draw / 2)

    def refuse(self, at: float, retry_after: float | None) -> None:
        """The vendor refused its account. Refusals of calls in flight at once are one."""
        if at < self.refused_until:
            return
        seconds = min(REFUSED_S * 2.0**self._refusals, LONGEST_S)
        self._refusals = min(self._refusals + 1, _DOUBLINGS)
        self.refused_until = at + min(max(seconds, retry_after or 0.0), LONGEST_S)

    def unfit(self, model: str, at: float) -> None:
        """The vendor refused the model to it."""
        if len(self._unfit) >= _MOST_UNFIT:
            self._unfit.clear()
        self._unfit[model] = at + UNFIT_S

    def fits(self, model: str, at: float) -> bool:
        """Whether it may be asked for a model, as far as is known."""
        return not self._unfit or at >= self._unfit.get(model, NEVER)

    def wait(self, at: float, processes: int) -> float:
        """Return the seconds until it may be used, refusals aside; 0 if it may be used now.

        processes: that share its limits.
        """
        wait = max(0.0, self.limited_until - at)
        if self.requests is not None:
            most = max(1.0, self.requests / processes)
            wait = max(wait, self.used_requests.room_in(at, most))
        if self.tokens is not None:
            most = max(1.0, self.tokens / processes)
            wait = max(wait, self.used_tokens.room_in(at, most))
        return wait

    def take_over(self, old: "PooledKey") -> None:
        """Go on where the same key of an earlier configuration is."""
        self.sent = old.sent
        self.used_requests, self.used_tokens = old.used_requests, old.used_tokens
        self.limited_until, self.busy_until = old.limited_until, old.busy_until
        self.refused_until = old.refused_until
        self._busy_count, self._refusals, self._unfit = old._busy_count, old._refusals, old._unfit
