"""Reports of one process: outcomes of its attempts, which all gateways add up as evidence.

It reports backends that have failed here within the window, and those that the leader watches
because they fail elsewhere. A backend without failures costs nothing.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from strowger_gateway.gateway.coordination.breaker_messages import NewOutcomes, OutcomeUpdate
from strowger_gateway.gateway.routing.resilience.breaker_per_model import MOST
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker


class _Reported(Struct, kw_only=True):
    """A breaker's counts as of the last report. ended: failures and successes."""

    failed: int
    ended: int
    recent: int = 0
    told: bool = False


class OutcomeReports:
    """The reports of one process, by the keys of breakers."""

    def __init__(self, breaker: Callable[[str], Breaker | None]) -> None:
        """breaker: returns that of a key, or `None` if there is none (yet)."""
        self._breaker = breaker
        self._reported: dict[str, _Reported] = {}
        self._watched: Mapping[str, float] | None = None

    def watch(self, since: Mapping[str, float], now: float) -> None:
        """Report these from now on, with the successes since then, failures or not."""
        self._watched = since
        for key, then in since.items():
            if key not in self._reported:
                breaker = self._breaker(key)
                counted = 0 if breaker is None else breaker.outcomes.since(then, now)
                failed, ended = _counts(breaker)
                self._reported[key] = _Reported(failed=failed, ended=ended - counted)

    def on_failure(self, key: str) -> None:
        """A breaker has counted a failure."""
        if self._watched is not None and key not in self._reported:
            failed, ended = _counts(self._breaker(key))
            if len(self._reported) < MOST:
                self._reported[key] = _Reported(failed=failed - 1, ended=ended - 1)

    def changes(self, now: float) -> OutcomeUpdate | None:
        """Return what has changed since the last call; `None` if nothing has."""
        outcomes: dict[str, NewOutcomes] = {}
        for key, last in tuple(self._reported.items()):
            breaker = self._breaker(key)
            failed, ended = _counts(breaker)
            recent = 0 if breaker is None else breaker.outcomes.at(now)
            if failed < last.failed or ended < last.ended:  # another breaker: a new generation's
                last.failed, last.ended = failed, ended
            more, fails = ended - last.ended, failed - last.failed
            if more or recent != last.recent or not last.told:
                outcomes[key] = NewOutcomes(
                    failed=fails, succeeded=max(0, more - fails), recent=recent - last.recent
                )
                self._reported[key] = _Reported(
                    failed=failed, ended=ended, recent=recent, told=True
                )
            if key not in (self._watched or ()) and (
                breaker is None or not breaker.failed_within(breaker.rule.window_s, now)
            ):
                del self._reported[key]
        return OutcomeUpdate(outcomes=outcomes) if outcomes else None


def _counts(breaker: Breaker | None) -> tuple[int, int]:
    """Return the failures and the outcomes ever."""
    return (0, 0) if breaker is None else (breaker.failed, breaker.outcomes.ever)
