"""The backends of one model, of which a slow one comes after the others until it has recovered.

A backend counts as slow if it takes several times its own normal (`pace.py`), and longer than its
siblings for the same work. Siblings whose time is not known are tried: if they turn out alike, the
cause is common, and the order is the operator's again. A slow backend gets few requests, which
show when it has recovered. It stays before the models of `fallback`, because the client has
requested this model, and a fast answer of another one is another answer.

Local delays do not count: of attempts that waited in the gateway's own queues, and of those that
were in flight while the process itself stood still.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.slowness.pace import GOOD, RECENT_S, Pace, Work

WORSE: Final = 1.5
"""A slow backend takes this many times as long as its best sibling, at least."""

ALIKE: Final = 1.2
"""If it takes less than this many times as long, it is not slow any more."""

COMPARED: Final = 3
"""Samples of a sibling that show that the cause is common."""

LOOK_S, STALL_S = 0.25, 0.25
"""How often waiting attempts are looked at, and how late that may be: later, the process stood."""

WATCHED: Final = 8
"""Attempts of one model that are watched while they wait for their first token."""

_NEVER: Final = float("-inf")
_IDLE: Final = float("inf")
_log = logging.getLogger("strowger.routing")


class Health(Protocol):
    """The part of a circuit breaker that this concerns."""

    @property
    def pace(self) -> Pace: ...

    def is_preferred(self, now: float) -> bool: ...

    def set_slow(self, now: float, until: float) -> None:
        """Set the end of the time in which it counts as slow, also in other processes."""
        ...


class _Place(Protocol):
    @property
    def siblings(self) -> "Siblings | None": ...


class Member(Protocol):
    """A candidate: one backend of a plan."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def complete(self) -> bool: ...
    @property
    def breaker(self) -> Health: ...
    @property
    def backend(self) -> _Place: ...


class _Entry(Protocol):
    @property
    def outcome(self) -> str: ...
    @property
    def waiting(self) -> bool: ...
    @property
    def waited_s(self) -> float: ...


class TimedAttempt(Protocol):
    """An attempt. peers: the candidates of its plan. late: it counts as slow already."""

    late: bool

    @property
    def started(self) -> float: ...
    @property
    def committed(self) -> bool: ...
    @property
    def entry(self) -> _Entry: ...
    @property
    def candidate(self) -> Member: ...
    @property
    def peers(self) -> Sequence[Member]: ...
    @property
    def key(self) -> str: ...
    def work(self) -> Work: ...


_AnyMember = TypeVar("_AnyMember", bound=Member)


Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""


def _call_later(seconds: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, call)


class Siblings:
    """What the backends of one model share. model: its name in log lines."""

    __slots__ = ("_clock", "_due", "_later", "_stood_at", "_waiting", "model")

    def __init__(
        self, model: str, clock: Callable[[], float] = now, later: Later = _call_later
    ) -> None:
        self.model = model
        self._clock, self._later = clock, later
        self._waiting: list[TimedAttempt] = []
        self._due = _IDLE
        self._stood_at = _NEVER

    def begin(self, sample: TimedAttempt, at: float, *, stream: bool) -> None:
        """An attempt has begun. stream: its first token is the sample, and is waited for."""
        pace = sample.candidate.breaker.pace
        if pace.is_marked(at):
            pace.probed_at, pace.passed = at, 0
        if stream and len(self._waiting) < WATCHED:
            self._waiting.append(sample)
            if self._due == _IDLE:
                self._wait(at)

    def note(self, sample: TimedAttempt, seconds: float, at: float) -> None:
        """An attempt has shown its first token, or its answer, after so many seconds."""
        if self._stood(at) or sample.started <= self._stood_at:
            return
        pace, work = sample.candidate.breaker.pace, sample.work()
        slow = pace.add(work, seconds, sample.key, at, counted=sample.late)
        self._judge(sample, work, seconds, at, slow=slow)

    def note_lost(self, sample: TimedAttempt, seconds: float, faster_s: float, at: float) -> None:
        """An attempt has lost against its hedge, which was begun later.

        seconds: it has taken so far. faster_s: the hedge has taken.
        """
        if self._stood(at) or sample.started <= self._stood_at:
            return
        pace, work = sample.candidate.breaker.pace, sample.work()
        if seconds >= WORSE * faster_s or pace.is_slow(work, seconds):
            pace.add_late(work, seconds, sample.key, at, counted=sample.late)
            self._judge(sample, work, seconds, at, slow=True)

    def look(self, at: float) -> None:
        """Look at the attempts that wait for their first token."""
        self._waiting = [one for one in self._waiting if not (one.committed or one.entry.outcome)]
        for one in self._waiting:
            if one.entry.waiting or one.entry.waited_s or one.started <= self._stood_at:
                continue
            pace, seconds = one.candidate.breaker.pace, at - one.started
            if seconds < pace.above:
                continue
            work = one.work()
            if pace.is_slow(work, seconds):
                pace.add_late(work, seconds, one.key, at, counted=one.late)
                if not one.late or pace.slow_until - at < RECENT_S / 2:
                    one.late = True
                    self._judge(one, work, seconds, at, slow=True)

    def _judge(
        self, sample: TimedAttempt, work: Work, seconds: float, at: float, *, slow: bool
    ) -> None:
        candidate = sample.candidate
        pace = candidate.breaker.pace
        others = [
            one
            for one in sample.peers
            if one.backend.siblings is self and one.breaker is not candidate.breaker
        ]
        if pace.is_marked(at):
            self._judge_probe(candidate, others, work, seconds, at, slow=slow)
        elif slow and pace.accused(at):
            self._accuse(candidate, others, work, at)
        else:
            self._compare(candidate, others, work, at)

    def _accuse(self, candidate: Member, others: Sequence[Member], work: Work, at: float) -> None:
        """Mark it as slow, unless its siblings take about as long."""
        pace = candidate.breaker.pace
        own = pace.last(work, at)
        able = [one for one in others if one.weight > 0 and one.breaker.is_preferred(at)]
        best: tuple[float, Member] | None = None
        unknown = False
        for one in able:
            theirs = one.breaker.pace
            known = theirs.last(work, at, 2)
            if known is None and not theirs.is_marked(at):
                known = theirs.normal(work)
                unknown = unknown or known is None
            if known is not None and (best is None or known < best[0]):
                best = known, one
        if own is None or not (unknown or (best is not None and own >= WORSE * best[0])):
            return
        if best is not None and best[1].breaker.pace.is_marked(at):
            self._release(best[1], at, "the others take longer")
        normal = pace.normal(work)
        pace.clear_evidence()
        pace.probed_at, pace.passed = at, 0
        candidate.breaker.set_slow(at, at + RECENT_S)
        _log.warning(
            "%s of model %s is slow, so other backends go first: %.2f s%s",
            candidate.name,
            self.model,
            own,
            "" if normal is None else f", normally {normal:.2f} s for requests of this size",
        )

    def _judge_probe(
        self,
        candidate: Member,
        others: Sequence[Member],
        work: Work,
        seconds: float,
        at: float,
        *,
        slow: bool,
    ) -> None:
        """A sample of a backend that counts as slow."""
        pace = candidate.breaker.pace
        known = [
            last
            for one in others
            if not one.breaker.pace.is_marked(at)
            and (last := one.breaker.pace.last(work, at, COMPARED)) is not None
        ]
        alike = bool(known) and seconds < ALIKE * min(known)
        if slow and alike:
            self._release(candidate, at, "the others take as long")
        elif not slow and (alike or pace.is_good(work, seconds)):
            pace.good += 1
            pace.probed_at = _NEVER
            if pace.good >= GOOD:
                self._release(candidate, at, "it has recovered")
        elif slow or pace.normal(work) is not None:
            pace.good = 0
            candidate.breaker.set_slow(at, at + RECENT_S)

    def _compare(self, candidate: Member, others: Sequence[Member], work: Work, at: float) -> None:
        """Release siblings that this one shows to be as fast as itself."""
        own: float | None = None
        for one in others:
            if not one.breaker.pace.is_marked(at):
                continue
            own = own or candidate.breaker.pace.last(work, at, COMPARED)
            theirs = one.breaker.pace.last(work, at)
            if own is not None and theirs is not None and theirs < ALIKE * own:
                self._release(one, at, "the others take as long")

    def _release(self, candidate: Member, at: float, why: str) -> None:
        candidate.breaker.pace.clear_evidence()
        candidate.breaker.set_slow(at, _NEVER)
        _log.info("%s of model %s is not slow any more: %s", candidate.name, self.model, why)

    def _stood(self, at: float) -> bool:
        """Whether the process stood still, so that what arrives now says nothing."""
        if at - self._due <= STALL_S:
            return False
        self._stood_at = at
        return True

    def _wait(self, at: float) -> None:
        self._due = at + LOOK_S
        self._later(LOOK_S, self._on_timer)

    def _on_timer(self) -> None:
        at = self._clock()
        if self._stood(at):
            self._waiting.clear()
        self._due = _IDLE
        self.look(at)
        if self._waiting:
            self._wait(at)


def slow_last(candidates: Sequence[_AnyMember], at: float) -> tuple[_AnyMember, ...]:
    """The candidates with those that count as slow behind their siblings, in their places.

    The first stays where it is if it is time to see whether it has recovered.
    """
    slow = [one for one in candidates if _is_slow(one, at)]
    if not slow:
        return tuple(candidates)
    first = candidates[0]
    if first in slow and first.breaker.pace.probe_due(at):
        return tuple(candidates)
    found = list(candidates)
    for siblings, complete in {(one.backend.siblings, one.complete) for one in slow}:
        places = [
            place
            for place, one in enumerate(found)
            if one.backend.siblings is siblings and one.complete == complete and one.weight > 0
        ]
        members = [found[place] for place in places]
        if any(one.breaker.is_preferred(at) and not _is_slow(one, at) for one in members):
            members.sort(key=lambda one: _is_slow(one, at))
            for place, one in zip(places, members, strict=True):
                found[place] = one
    for one in slow:
        one.breaker.pace.passed += 1
    return tuple(found)


def _is_slow(one: Member, at: float) -> bool:
    return one.backend.siblings is not None and one.breaker.pace.is_marked(at)
