"""Turn what happens to the breakers of one process into events.

A breaker calls `moved` when something may have changed, by its own attempts or by what another
process has reported. Nothing here runs for an attempt that succeeds at a backend that works.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import isinf

from msgspec import Struct

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.backend_events.cause import cause_of
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, Kind
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.breaker_per_model import NAMED, bound
from strowger_gateway.gateway.routing.resilience.breaker_state import Phase
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker

MIRROR = " (mirror)"
"""The end of the key of a backend that gets copies only: a model never depends on it."""

_DOWN: Mapping[Phase, Kind] = {
    "failing": "failing",
    "refused": "refused",
    "open": "circuit_opened",
}


class _Seen(Struct, kw_only=True):
    """What is known of one breaker that is down or cools down. Times in the clock's seconds.

    cooling_until: the end of the cooldown that was reported.
    """

    phase: Phase = "up"
    since: float = 0.0
    cooling_until: float = float("-inf")


class BackendWatch:
    """`follow` each generation's backends. send: called with each event of this process.

    clock: of the breakers. wall: Unix seconds. Tests replace both, and `send` is the leader's
    channel in a worker.
    """

    def __init__(
        self,
        send: Callable[[BackendEvent], None],
        *,
        clock: Callable[[], float] = now,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.send = send
        self.clock, self.wall = clock, wall
        self._backends: Mapping[str, Backend] = {}
        self._models: dict[str, list[Backend]] = {}
        self._fallbacks: Mapping[str, tuple[str, ...]] = {}
        self._seen: dict[str, _Seen] = {}
        self._without: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def follow(
        self, backends: Mapping[str, Backend], fallbacks: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Watch these backends from now on, by `MODEL: PROVIDER/MODEL`, and no others.

        fallbacks: the models that serve when one has no backend left.
        """
        for key, old in self._backends.items():
            new = backends.get(key)
            if new is None or new.breaker is not old.breaker:
                for breaker in (old.breaker, *(one for _, one in old.breakers)):
                    breaker.moved = _ignore  # requests that began before may still end
                self._on_removed(key)
        self._backends, self._fallbacks = backends, fallbacks
        self._models = {}
        for key, backend in backends.items():
            model, _, place = key.partition(": ")
            if not place.endswith(MIRROR):
                self._models.setdefault(model, []).append(backend)
            backend.breaker.moved = partial(self._on_moved, key, backend.breaker)
            for name, breaker in backend.breakers:
                self._watch_name(key, name, breaker)
            backend.breakers.watched = partial(self._watch_name, key)
        for model in self._without.keys() - self._models.keys():
            self._again(model)
        for model in self._models:
            self._judge(model)

    def look(self) -> None:
        """Notice models whose backends have come out of a cooldown."""
        for model in tuple(self._without):
            self._judge(model)

    def judge(self) -> None:
        """Look at all models: an operator has taken backends out of service, or put them back."""
        for model in tuple(self._models):
            self._judge(model)

    def _watch_name(self, key: str, name: str, breaker: Breaker) -> None:
        """Watch the breaker of one model name of a wildcard."""
        if not breaker.is_tried:
            self._seen.pop(key + NAMED + name, None)  # of one that was evicted
        breaker.moved = partial(self._on_moved, key + NAMED + name, breaker)

    def _on_moved(self, key: str, breaker: Breaker) -> None:
        at = self.clock()
        phase, seen = breaker.phase(at), self._seen.get(key)
        until = breaker.pauses.retry_after_until
        if seen is None:
            if phase == "up" and until <= at:
                return
            bound(self._seen)
            seen = self._seen[key] = _Seen()
        if until > at and at >= seen.cooling_until:
            self._report(key, "cooldown", breaker, at, for_s=until - at)
        seen.cooling_until = max(seen.cooling_until, until)
        before, since = seen.phase, seen.since
        seen.phase = phase
        if phase != "up":
            began = _down_since(breaker, at)
            seen.since = began if before == "up" else min(since, began)
        if phase != before:
            self._on_phase(key, breaker, at, before, since)
        if phase == "up" and until <= at:
            del self._seen[key]
        if NAMED not in key:
            self._judge(key.partition(": ")[0])

    def _on_phase(self, key: str, breaker: Breaker, at: float, before: Phase, since: float) -> None:
        """The phase has changed. before, since: what it was, and since when it was down."""
        phase = breaker.phase(at)
        if before == "open" and phase != "refused":
            self._report(key, "circuit_closed", breaker, at, duration_s=at - since)
        elif phase == "up":
            self._report(key, "recovered", breaker, at, duration_s=at - since)
        else:
            refused_s = breaker.refused_for(at) or None
            self._report(key, _DOWN[phase], breaker, at, for_s=refused_s)

    def _report(
        self,
        key: str,
        kind: Kind,
        breaker: Breaker,
        at: float,
        *,
        duration_s: float | None = None,
        for_s: float | None = None,
    ) -> None:
        model, _, place = key.partition(": ")
        place, _, name = place.partition(NAMED)
        phase, wall = breaker.phase(at), self.wall()
        down = phase != "up"
        code, message = cause_of(breaker.failing_on)
        self.send(
            BackendEvent(
                time=wall,
                kind=kind,
                model=model,
                backend=place,
                requested=name,
                phase=phase,
                code=code,
                message=message,
                failed_share=breaker.failed_share(at) if down else None,
                failed_in_row=breaker.run.count or 0,
                since=wall - (at - _down_since(breaker, at)) if down else None,
                duration_s=duration_s,
                for_s=for_s,
                seen_by=breaker.seen_by,
            )
        )

    def _on_removed(self, key: str) -> None:
        """A backend is gone, or is another one now."""
        for one in [one for one in self._seen if one == key or one.startswith(key + NAMED)]:
            seen = self._seen.pop(one)
            if seen.phase == "up":
                continue
            model, _, place = one.partition(": ")
            place, _, name = place.partition(NAMED)
            self.send(
                BackendEvent(
                    time=self.wall(),
                    kind="removed",
                    model=model,
                    backend=place,
                    requested=name,
                    duration_s=self.clock() - seen.since,
                )
            )

    def _judge(self, model: str) -> None:
        """Report when the last backend of a model stops to work, and when one works again."""
        at, backends = self.clock(), self._models.get(model, [])
        if any(one.breaker.is_up(at) for one in backends) or not backends:
            if model in self._without:
                self._again(model)
            return
        if model not in self._without:
            self._without[model] = at
            fallback = tuple(
                other
                for other in self._fallbacks.get(model, ())
                if any(one.breaker.is_up(at) for one in self._models.get(other, ()))
            )
            self.send(
                BackendEvent(
                    time=self.wall(),
                    kind="no_backend",
                    model=model,
                    phase="failing",
                    since=self.wall(),
                    fallback=fallback,
                )
            )
        self._look_later(backends, at)

    def _again(self, model: str) -> None:
        began = self._without.pop(model)
        lasted = self.clock() - began
        self.send(
            BackendEvent(time=self.wall(), kind="backend_again", model=model, duration_s=lasted)
        )

    def _look_later(self, backends: Iterable[Backend], at: float) -> None:
        """Look again when the first cooldown ends: nothing else would notice that."""
        waits = [one.breaker.cooldown_left(at) for one in backends]
        ends = [wait for wait in waits if wait > 0]
        if not ends:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # a test, or a command
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(min(ends) + 0.01, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.look()


def _down_since(breaker: Breaker, at: float) -> float:
    return at if isinf(breaker.down_since) else breaker.down_since


def _ignore() -> None:
    """The hook of a breaker that is not watched."""
