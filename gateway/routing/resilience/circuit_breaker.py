"""Whether a backend may be asked now: its circuit breaker, and its cooldown after a 429.

1. Closed: the backend is used. Page's cumulative sum test counts: the evidence grows by 1 with each
   failure, shrinks by failure_rate / (1 - failure_rate) with each success, and is never below 0.
   The sum drifts upwards only if more than `failure_rate` of the requests fail, and its rate of
   false alarms is known per request, no matter how often it is evaluated (docs/adr/0020).
2. The circuit opens when the evidence reaches `min_requests`, or a share of the requests in the
   window where that is more. With `slow_s`, slow requests have evidence of their own.
3. Open: the backend gets no requests for a cooldown, part of which is random.
4. Half-open: after the cooldown, one request passes as a probe. Its first content, or its success,
   closes the circuit, and the evidence is 0 again. Its failure opens it for twice as long, up to a
   maximum.

Four more things send requests elsewhere, each in files of its own:

- A 429 or 503 with retry-after starts a cooldown without requests; after a 429 without it, other
  backends are asked first (`pauses.py`). A 429 never counts as a failure, and neither the cooldown
  nor the open circuit shortens the other.
- A backend that refuses the operator's account, key or model gets no requests for minutes
  (`refusals.py`).
- The siblings of a slow backend are asked first (`gateway/routing/slowness`).
- An operator drains or disables a backend (`backend_hold.py`): it gets none at all.

If no other backend is left, a request may be sent to one that refuses, or whose circuit is open
(`last_resort_in`), a few at a time. Its success closes the circuit.

Breakers of the same backend in several processes act as one: each sends its `snapshot` when it
changes, the others `merge` it, and a lease lets one process probe at a time. Between gateways,
evidence is added up first, and what opens a circuit here is never one other gateway's word
(`gateway/coordination/shared_evidence.py`). Times are seconds of a monotonic clock, passed
in.

E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954), 100-115.
"""

from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.gateway.routing.resilience.breaker_state import BreakerState
from strowger_gateway.schemas.errors import GatewayError

MIN_FAILED_SHARE = 0.02
"""The evidence that opens the circuit, as a share of the requests in the window, if that is more
than `min_requests`. If every request fails, it opens after this part of the window."""

JITTER = 0.2
"""The random part of a cooldown, so that gateways do not probe at the same time."""


class Breaker(BreakerState):
    """The state, with what changes it. Not thread-safe; one event loop owns it."""

    __slots__ = ()

    def merge(self, health: BreakerSnapshot) -> None:
        """Adopt what another process knows about the same backend."""
        self.pauses.merge(health)
        self.last_failure = max(self.last_failure, health.last_failure)
        self.refusals.merge(health.refused_at, health.refused_until)
        news = self.run.merge(health)
        self.pace.merge(health.slow_at, health.slow_until)
        if health.at > self._at:
            if self.open_until is not None and health.open_until is None:
                self._on_closed_elsewhere(health)
            self._at = health.at
            stays_open = self.open_until is not None and health.open_until is not None
            self.seen_by = max(self.seen_by, health.seen_by) if stays_open else health.seen_by
            self.open_until = health.open_until
            self._cooldown = health.cooldown_s
            if health.open_until is None:
                self._clear_evidence()
        self._update_impaired_until()
        if news and self.run.count:
            self.unsettled = True
            self.on_unsettled()
        self.moved()

    def begin(self, now: float) -> bool:
        """A request is about to be sent. True if it is a probe: pass that on when it ends."""
        if not self._is_shut(now):
            return False
        if self.open_until is not None and now >= max(self.open_until, self.refusals.until):
            self.lease.acquire()
        self._begun_at = now
        self._probes += 1
        return True

    def succeed(self, now: float, *, probe: bool) -> None:
        """A request has succeeded. probe: as returned by `begin`."""
        if probe:
            self._close_after_probe(now)
        self.settle(now)
        self.outcomes.add(now)

    def on_probe_content(self, now: float) -> None:
        """The probe has content: close the circuit, although the request itself continues."""
        self._close_after_probe(now)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Something has succeeded: end the run of failures.

        A success while a refusal lasts is one of a request from before.
        """
        self.vouched = False
        self.pauses.deprioritised_count = 0
        if now >= self.refusals.until:
            self.refusals.clear(now)
        self.unsettled = self.refusals.count > 0
        if self.run.succeed(now):
            self.changed()
        if self.whole is not None and self.whole.unsettled:
            self.whole.settle(now)
        self.moved()

    def vouch(self, now: float, began: float) -> None:
        """A health check by path has succeeded: close the circuit.

        Once only, until a request succeeds as well: what it checks may not be what fails. began:
        when it was sent; a failure since then is newer.
        """
        if self.last_failure > began:
            return
        settled = self.open_until is None and self.run.count == 0
        if self.vouched or settled or self.phase(now) == "refused":
            return
        if self.open_until is not None:
            self._close(now)
        self.settle(now)
        self.unsettled = self.vouched = True
        self.on_unsettled()

    def heal(self, now: float) -> None:
        """A health check by request has succeeded: it counts as a request and as a probe."""
        if self._is_shut(now):
            self._close(now)
        self.succeed(now, probe=False)

    def count_failure(self, now: float, *, conclusive: bool = False) -> None:
        """Prolong the run of failures, as FailureRun.fail."""
        first, self.unsettled = not self.run.count, True
        if self.run.fail(now, conclusive=conclusive):
            self.changed()
        if first:
            self.on_unsettled()
        if self.whole is not None:
            self.whole.count_failure_of_name(now, self.failing_on, conclusive=conclusive)

    def count_failure_of_name(
        self, now: float, failing_on: tuple[GatewayError, object] | None, *, conclusive: bool
    ) -> None:
        """`count_failure` for one of the names of a wildcard."""
        self.failing_on = failing_on
        self.count_failure(now, conclusive=conclusive)
        self.moved()
        self.failing_on = None

    def fail(self, now: float, *, probe: bool, draw: float = 1.0) -> None:
        """A request has failed. draw: jitter of the cooldown, uniform in [0, 1)."""
        before, self._failed_at = self._failed_at, now
        self.last_failure = now
        self.count_failure(now)
        if probe and self.open_until is not None and now >= self.open_until:
            self._open_again(now, self.open_until, draw)
        else:
            self._add_evidence(now, before)
            needed = max(self.rule.min_requests, MIN_FAILED_SHARE * self.outcomes.total)
            if self.open_until is None and self._evidence >= needed:
                self._open(now, draw)
        if probe:
            self._end_probe()
        self.failed += 1
        self.on_failure()
        self.moved()

    def slow(self, now: float, *, probe: bool, draw: float = 1.0) -> None:
        """A request has shown nothing for `slow_s`. draw: as in `fail`."""
        rule = self.rule
        ended = self.outcomes.ever
        evidence = self.slow_calls.add(ended, now, rule.slow_rate, rule.window_s)
        if self.open_until is None:
            if evidence >= max(rule.min_requests, MIN_FAILED_SHARE * self.outcomes.total):
                self._open(now, draw)
        elif probe and now >= self.open_until:
            self._open_again(now, self.open_until, draw)
        if probe:
            self._end_probe()
        self.moved()

    def refuse(
        self,
        now: float,
        request: str,
        *,
        certain: bool,
        retry_after: float | None,
        probe: bool,
        draw: float = 1.0,
    ) -> bool:
        """The backend refused the operator's account, key or model. True if it is set aside now.

        request: the id of the request. certain: no request can be to blame; otherwise a refusal
        has no effect while the backend answers others. draw: as in `fail`.
        """
        answers = self.outcomes.ever > self._seen and self.outcomes.at(now) > 0
        if self.outcomes.ever > self._seen:
            self.refusals.clear(now)
        before, self._failed_at = self._failed_at, now
        self.last_failure = now
        self._add_evidence(now, before)
        sets_aside, known = certain or probe or not answers, self.refusals.until > now
        self.count_failure(now, conclusive=sets_aside)
        if sets_aside:
            seconds = self.refusals.add(now, request, retry_after, self.rule.max_retry_after_s)
            if self.refusals.confirmed and self.open_until is None:
                self._open(now, draw)
            self.refusals.until = max(self.refusals.until, now + jittered(seconds, draw))
            self._update_impaired_until()
            self.changed()
        if probe:
            self._end_probe()
        self.failed += 1
        self.on_failure()
        self.moved()
        return sets_aside and not known

    def cool_down(self, now: float, seconds: float, *, probe: bool, limited: bool = True) -> None:
        """The backend asked for a pause (429 or 503 with retry-after); a longer one is kept.

        seconds: honoured up to `max_retry_after_s`. limited: it was a 429.
        """
        if probe:
            self._close_after_probe(now)
        seconds = min(seconds, self.rule.max_retry_after_s)
        if self.pauses.cool_down(now, seconds, limited=limited):
            self._update_impaired_until()
            self.changed()
        self.moved()

    def deprioritise(self, now: float, draw: float, *, probe: bool) -> None:
        """The backend sent 429 without retry-after. draw: jitter, uniform in [0, 1).

        No effect while it is deprioritised: such a request was sent before that, or for lack of
        another backend, so its 429 adds no information.
        """
        if probe:
            self._close_after_probe(now)
        if self.pauses.deprioritise(now, draw):
            self.unsettled = True
            self._update_impaired_until()
            self.changed()
        self.moved()

    def set_slow(self, now: float, until: float) -> None:
        """It counts as slow until then, in all processes; in the past: no longer."""
        self.pace.slow_at, self.pace.slow_until = now, until
        self._update_impaired_until()
        self.changed()

    def put_on_hold(self, hold: BackendHold | None) -> None:
        """An operator holds the backend, or ends that: `None`. What is known of it stays."""
        if hold != self.hold:
            self.hold = hold
            self._update_impaired_until()
            self.moved()

    def ignore_outcome(self, *, probe: bool) -> None:
        """The request ended without evidence about the backend, for example by a disconnect."""
        if probe:
            self._end_probe()

    def reset(self, now: float) -> None:
        """The backend was restarted: discard everything known about it."""
        self.pauses.clear()
        self.run.forget(now)
        self.pace.merge(now, float("-inf"))
        self.unsettled, self.vouched = True, False
        self._close(now)
        self.moved()

    def _add_evidence(self, now: float, before: float) -> None:
        """Add one failure to the cumulative sum. before: the time of the previous failure.

        A success only adds to a count, and all successes since the last failure are subtracted
        here: they could only lower the sum, so the circuit cannot open between two failures.
        Evidence expires when no failure follows within the window.
        """
        successes = self.outcomes.ever - self._seen
        rate = self.rule.failure_rate
        evidence = 0.0 if now - before > self.rule.window_s else self._evidence
        if successes and evidence:
            evidence = max(0.0, evidence - successes * rate / (1.0 - rate)) if rate < 1.0 else 0.0
        self._evidence = evidence + 1.0
        self.outcomes.add(now)
        self._failures.add(now)
        self._seen = self.outcomes.ever

    def _on_closed_elsewhere(self, health: BreakerSnapshot) -> None:
        """The circuit is closed by another gateway, which does not know our failures in a row."""
        if health.run_at == float("-inf") and self.run.succeed(health.at):
            self.changed()

    def _open_again(self, now: float, since: float, draw: float) -> None:
        """The probe has failed. since: when the circuit became half-open."""
        # Without requests nothing was learned about the backend: the cooldown starts over.
        idle = now - since > max(self._cooldown, self.rule.window_s)
        longer = self.rule.cooldown_s if idle else self._cooldown * 2
        self._cooldown = min(longer, self.rule.longest_s)
        self._open(now, draw)

    def _open(self, now: float, draw: float) -> None:
        self._at = now
        self.open_until = now + jittered(self._cooldown, draw)
        self.seen_by = max(1, self.seen_by)
        self._update_impaired_until()
        self.changed()

    def _close_after_probe(self, now: float) -> None:
        """Close the circuit after a probe that was answered, and end the probe."""
        if self._is_shut(now) or self.refusals.count:
            self._close(now)
        self._end_probe()

    def _close(self, now: float) -> None:
        self._at, self.open_until, self.seen_by = now, None, 0
        self.refusals.clear(now)
        self._clear_evidence()
        self._update_impaired_until()
        self.changed()

    def _clear_evidence(self) -> None:
        """Forget failures and doubled cooldowns: a closed circuit starts from zero."""
        self._cooldown = self.rule.cooldown_s
        self._evidence, self._seen = 0.0, self.outcomes.ever
        self.slow_calls.clear()
        self.outcomes.clear()
        self._failures.clear()

    def _end_probe(self) -> None:
        self._probes -= 1
        if not self._probes:
            self.lease.release()


def jittered(cooldown_s: float, draw: float) -> float:
    """Return the time from opening to the probe. draw: uniform in [0, 1)."""
    return cooldown_s * (1.0 - JITTER + JITTER * draw)
