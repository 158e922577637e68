"""How long a backend takes for equal work: its normal, its last times, evidence that it is slow.

Times are compared within a class of work (`work_class`), so that a long prompt is never compared
with a short one. The normal of a class is an average of logarithms, which follows what is measured:
by equal weights at first, then within minutes downwards and within an hour upwards. So a backend
that has become slow is measured by what it used to be, and one that stays slow for an hour has a
new normal.

A sample is slow if it takes `SEVERAL` times the normal of its class, and `LEAST_S` longer. `NEEDED`
of them accuse the backend, one that is not slow takes one back. If several API keys use the
backend, two of them have to have seen it: what one client sends decides nothing for the others.
"""

import math
from collections.abc import Hashable
from typing import Final

from strowger_gateway.schemas.content_facts import IMAGES, OPAQUE, TOOL_MEDIA, message_facts
from strowger_gateway.schemas.requests import ChatRequest, Request

Work = Hashable
"""A class of requests that take a backend equally long; see `work_class`."""

LEAST_TOKENS: Final = 64
"""Shorter prompts and answers are of one class; each further class is twice as long."""

SEVERAL: Final = 3.0
"""A sample of this many times the normal is slow."""

RECOVERED: Final = 2.0
"""Of a backend that counts as slow, a sample of less than this many times the normal is good."""

LEAST_S: Final = 0.2
"""What a slow sample exceeds the normal by, at least: a few milliseconds are not a fault."""

NEEDED: Final = 3
"""Slow samples that accuse a backend."""

GOOD: Final = 2
"""Good samples in a row that end it."""

RECENT_S: Final = 60.0
"""For how long a sample, a key and evidence count without another one."""

LEARNED: Final = 5
"""Samples of a class before it has a normal."""

EVERY_S: Final = 0.1
"""Samples that are certainly not slow are looked at once per this time, which bounds their cost."""

PROBE_S, LONGEST_PROBE_S, PROBE_EVERY = 5.0, 15.0, 10
"""A slow backend gets a request per 5 s, and at most one of ten; but one per 15 s in any case."""

_EQUAL: Final = 20
"""The first samples of a class have equal weights."""

_FALL_S, _RISE_S = 600.0, 3600.0
"""Time constants of a normal, downwards and upwards."""

_CLASSES, _KEYS = 64, 4
"""Classes and keys that are kept, the latest ones: clients choose them."""

_NEVER: Final = float("-inf")


_MEDIA: Final = IMAGES | OPAQUE | TOOL_MEDIA


def work_class(request: Request, model: str, prompt_tokens: int, written: int | None) -> Work:
    """The class of a request's work: its model, its type, and classes of its sizes.

    written: the tokens of the answer if its time is that of all of them; `None` if it is the time
    to the first.
    """
    media, effort = 0, ""
    if isinstance(request, ChatRequest):
        media = message_facts(request.messages) & _MEDIA
        effort = request.reasoning_effort if isinstance(request.reasoning_effort, str) else ""
    return (
        model,
        type(request).__name__,
        max(prompt_tokens, LEAST_TOKENS).bit_length(),
        0 if written is None else max(written, LEAST_TOKENS).bit_length(),
        media,
        effort,
    )


class _Class:
    """The times of one class of work, as logarithms to base 2 of seconds."""

    __slots__ = ("_at", "_count", "_last_at", "_last_count", "_last_log", "_log")

    def __init__(self) -> None:
        self._log = self._last_log = 0.0
        self._count = self._last_count = 0
        self._at = self._last_at = _NEVER

    def add(self, seconds: float, at: float) -> None:
        log = math.log2(max(seconds, 1e-4))
        self._add_last(log, at)
        if self._count < _EQUAL:
            weight = 1.0 / (self._count + 1)
        else:
            tau = _RISE_S if log > self._log else _FALL_S
            weight = 1.0 - math.exp(-max(0.0, at - self._at) / tau)
        self._log += weight * (log - self._log)
        self._count += 1
        self._at = at

    def at_least(self, seconds: float, at: float) -> None:
        """Add the time of an attempt that has not shown anything yet, to the last samples only."""
        log = math.log2(max(seconds, 1e-4))
        if at - self._last_at > RECENT_S or log > self._last_log:
            self._add_last(log, at, weight=1.0)

    def _add_last(self, log: float, at: float, weight: float = 0.5) -> None:
        if at - self._last_at > RECENT_S:
            self._last_count, weight = 0, 1.0
        self._last_log += weight * (log - self._last_log)
        self._last_count += 1
        self._last_at = at

    @property
    def normal(self) -> float | None:
        return 2.0**self._log if self._count >= LEARNED else None

    def last(self, at: float, least: int) -> float | None:
        """The mean of the last samples; `None` if there are fewer than `least` recent ones."""
        if self._last_count < least or at - self._last_at > RECENT_S:
            return None
        return 2.0**self._last_log


class Pace:
    """The pace of one backend, or of one model name of a wildcard backend. Times in seconds.

    above, due: a sample of less than `above` seconds, before the time `due`, need not be looked at.
    slow_at:    when it last counted as slow, or no longer. slow_until: how long it does.
    good:       good samples since it counts as slow. probed_at: when it last got a request then.
    passed:     requests since that went elsewhere.
    """

    __slots__ = (
        "_accusers",
        "_classes",
        "_evidence",
        "_evidence_at",
        "_keys",
        "above",
        "due",
        "good",
        "passed",
        "probed_at",
        "slow_at",
        "slow_until",
    )

    def __init__(self) -> None:
        self._classes: dict[Work, _Class] = {}
        self._keys: dict[str, float] = {}
        self._accusers: tuple[str, ...] = ()
        self._evidence = 0
        self._evidence_at = _NEVER
        self.above = math.inf
        self.due = _NEVER
        self.slow_at = self.slow_until = self.probed_at = _NEVER
        self.good = self.passed = 0

    def add(self, work: Work, seconds: float, key: str, at: float, *, counted: bool) -> bool:
        """Add the time of one attempt; whether it is slow.

        key: of the client. counted: the attempt has already been added as a slow one.
        """
        slow = self.is_slow(work, seconds)
        self._class(work).add(seconds, at)
        self.due = at + EVERY_S
        normals = [normal for one in self._classes.values() if (normal := one.normal) is not None]
        self.above = min(map(_slow_from, normals), default=math.inf)
        if not (slow and counted):
            self._count(key, at, slow=slow)
        return slow

    def add_late(self, work: Work, seconds: float, key: str, at: float, *, counted: bool) -> None:
        """Add a slow attempt that has not shown anything yet. counted: as for `add`."""
        self._class(work).at_least(seconds, at)
        if not counted:
            self._count(key, at, slow=True)

    def is_slow(self, work: Work, seconds: float) -> bool:
        """Whether so much work should have taken far less time."""
        normal = self.normal(work)
        return normal is not None and seconds >= _slow_from(normal)

    def is_good(self, work: Work, seconds: float) -> bool:
        normal = self.normal(work)
        return normal is not None and seconds < max(RECOVERED * normal, normal + LEAST_S / 2)

    def normal(self, work: Work) -> float | None:
        """Seconds; `None` while too few samples are known."""
        one = self._classes.get(work)
        return None if one is None else one.normal

    def last(self, work: Work, at: float, least: int = 1) -> float | None:
        """The mean of the last samples, seconds; `None` if fewer than `least` are recent."""
        one = self._classes.get(work)
        return None if one is None else one.last(at, least)

    def accused(self, at: float) -> bool:
        """Whether there is enough evidence, of two keys if several use the backend."""
        if self._evidence < NEEDED or at - self._evidence_at > RECENT_S:
            return False
        others = self._keys.keys() - set(self._accusers)
        several = any(at - self._keys[one] <= RECENT_S for one in others)
        return len(self._accusers) > 1 or not several

    def clear_evidence(self) -> None:
        self._evidence, self._accusers, self.good = 0, (), 0

    def is_marked(self, at: float) -> bool:
        """Whether it counts as slow."""
        return at < self.slow_until

    def merge(self, slow_at: float, slow_until: float) -> None:
        """Adopt what another process knows, if that is newer."""
        if slow_at > self.slow_at:
            if slow_until < slow_at:
                self.clear_evidence()
            self.slow_at, self.slow_until = slow_at, slow_until
            self.probed_at = max(self.probed_at, slow_at)

    def probe_due(self, at: float) -> bool:
        """Whether the next request that the policy sends to it goes there, although it is slow."""
        waited = at - self.probed_at
        return waited >= LONGEST_PROBE_S or (waited >= PROBE_S and self.passed >= PROBE_EVERY)

    def _class(self, work: Work) -> _Class:
        one = self._classes.pop(work, None)
        if one is None:
            one = _Class()
            if len(self._classes) >= _CLASSES:
                del self._classes[next(iter(self._classes))]
        self._classes[work] = one
        return one

    def _count(self, key: str, at: float, *, slow: bool) -> None:
        self._keys.pop(key, None)
        if len(self._keys) >= _KEYS:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = at
        if at - self._evidence_at > RECENT_S:
            self._evidence, self._accusers = 0, ()
        if slow:
            self._evidence, self._evidence_at = min(self._evidence + 1, NEEDED), at
            if key not in self._accusers:
                self._accusers = (*self._accusers[-1:], key)
        elif self._evidence:
            self._evidence -= 1
            if not self._evidence:
                self._accusers = ()


def _slow_from(normal: float) -> float:
    return max(SEVERAL * normal, normal + LEAST_S)
