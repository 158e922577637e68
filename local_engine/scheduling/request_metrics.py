"""Counters and timings of one model's answers.

The engine's thread writes; any thread may read and may see numbers of different steps. An
observation costs a search among sixteen bounds and two additions.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from strowger_gateway.local_engine.protocol.stats import BOUNDS, Footprint, Histogram, Stats
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import Sequence

_S = 1e-9


class Timing(Struct, kw_only=True):
    """Timestamps of one answer by the engine's clock; 0: not yet."""

    arrival_time_ns: int
    first_scheduled_time_ns: int = 0
    first_token_time_ns: int = 0
    last_token_time_ns: int = 0


class Tally:
    """A histogram that collects observations."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Add `times` equal observations; a negative duration counts as 0."""
        seconds = max(seconds, 0.0)
        self._counts[bisect_left(BOUNDS, seconds)] += times
        self._sum += seconds * times

    def histogram(self) -> Histogram:
        return Histogram(counts=tuple(self._counts), sum=self._sum)


class RequestMetrics:
    """All counters of one model except those of its pages.

    clock: in seconds; the same clock as for the sequences' `arrival`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._timings: dict[int, Timing] = {}
        self.steps = 0
        self.computed_tokens = 0
        self.cached_tokens = 0
        self.num_input_tokens = 0
        self.num_output_tokens = 0
        self.total_draft_tokens = 0
        self.total_accepted_draft_tokens = 0
        self.finished: Counter[str] = Counter()
        self.queue_time = Tally()
        self.time_to_first_token = Tally()
        self.time_between_tokens = Tally()
        self.step_time = Tally()

    def now(self) -> float:
        return self._clock()

    def timing(self, id: int) -> Timing | None:
        """Return the timing of an answer that has not ended."""
        return self._timings.get(id)

    def began(self, sequences: Iterable[Sequence]) -> None:
        """Record that a step computes these sequences; unknown ones are beams."""
        at = 0
        for sequence in sequences:
            timing = self._timings.get(sequence.id)
            if timing is None or timing.first_scheduled_time_ns:
                continue
            at = at or _ns(self._clock())
            timing.first_scheduled_time_ns = at
            self.queue_time.add((at - timing.arrival_time_ns) * _S)
            self.num_input_tokens += sequence.prompt
            self.cached_tokens += max(sequence.cached, 0)

    def drew(self, sequence: Sequence, count: int, now: float) -> None:
        """Record that the step produced `count` tokens of this answer, at least one, by `now`."""
        at, timing = _ns(now), self._timings[sequence.id]
        timing.first_scheduled_time_ns = timing.first_scheduled_time_ns or at
        self.num_output_tokens += count
        if timing.first_token_time_ns:
            gap = (at - timing.last_token_time_ns) * _S
            self.time_between_tokens.add(gap / count, count)
        else:
            timing.first_token_time_ns = at
            self.time_to_first_token.add((at - timing.arrival_time_ns) * _S)
        timing.last_token_time_ns = at

    def drafted(self, proposed: int, accepted: int) -> None:
        """Record the draft tokens that a step verified, and how many it accepted."""
        self.total_draft_tokens += proposed
        self.total_accepted_draft_tokens += accepted

    def stepped(self, computed: int, began: float) -> None:
        """Record the end of a step that computed `computed` tokens; `began`: its start by `now`."""
        self.steps += 1
        self.computed_tokens += computed
        self.step_time.add(self._clock() - began)

    def ended(self, id: int, outcome: str) -> None:
        """Record the end of an answer; the first outcome counts."""
        if self._timings.pop(id, None) is not None:
            self.finished[outcome] += 1

    def arrived(self, sequence: Sequence) -> None:
        """Start to count an answer; may be called twice."""
        if sequence.id not in self._timings:
            self._timings[sequence.id] = Timing(arrival_time_ns=_ns(sequence.arrival))

    def stats(self, scheduler: Scheduler, footprint: Footprint) -> Stats:
        """Return all counters, including the scheduler's. May be called from any thread."""
        blocks = scheduler.blocks
        return Stats(
            waiting=scheduler.waiting,
            running=scheduler.running,
            blocks_total=blocks.total,
            blocks_free=blocks.free,
            cache_bytes=footprint.cache_bytes,
            weights_bytes=footprint.weights_bytes,
            loaded_since=footprint.loaded_since,
            steps=self.steps,
            preemptions=scheduler.preemptions,
            computed_tokens=self.computed_tokens,
            cached_tokens=self.cached_tokens,
            num_input_tokens=self.num_input_tokens,
            num_output_tokens=self.num_output_tokens,
            total_draft_tokens=self.total_draft_tokens,
            total_accepted_draft_tokens=self.total_accepted_draft_tokens,
            kv_cache_alloc_new_blocks=blocks.taken,
            kv_cache_reused_blocks=scheduler.reused,
            kv_cache_alloc_total_blocks=blocks.taken + scheduler.reused,
            finished=dict(self.finished),
            queue_time=self.queue_time.histogram(),
            time_to_first_token=self.time_to_first_token.histogram(),
            time_between_tokens=self.time_between_tokens.histogram(),
            step_time=self.step_time.histogram(),
        )


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
