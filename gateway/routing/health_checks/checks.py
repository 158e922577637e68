"""Run the health checks of all providers in one process of the gateway, and apply their results.

A check that passes closes an open circuit as a probe does, and one that fails is evidence as a
failed request is; a check by request even counts as a request. So whether a backend works is known
while no client sends anything. Checks belong to no client: they are neither recorded nor charged.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct
from prometheus_client.registry import CollectorRegistry

from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.fast_counters import FastCounter
from strowger_gateway.gateway.routing.backend_events.cause import cause_of
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent
from strowger_gateway.gateway.routing.backend_events.watch import BackendWatch
from strowger_gateway.gateway.routing.health_checks.path_check import get
from strowger_gateway.gateway.routing.health_checks.smallest_request import send, smallest_requests
from strowger_gateway.gateway.routing.health_checks.targets import CheckTarget, targets_of
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.request_record import new_request_id
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.retry import concerns_backend
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBusy,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.requests import Request

TICK_S: Final = 0.25
"""Interval at which checks that are due begin."""

STILL_S: Final = 1.0
"""Seconds by which a tick is late if the process stood still: what a check waited for until then
is no evidence about the provider."""

JITTER: Final = 0.2
"""The part by which an interval differs at random, so that gateways do not check in step."""

AT_ONCE: Final = 64
"""Checks in flight; later ones wait. With the default interval and time for an answer, as many as
190 servers may hang before the checks of others are late."""

SLOWEST: Final = 8.0
"""How many times as long the interval gets, by doubling, while the provider answers 429."""

Outcome = Literal["passed", "failed", "limited", "rejected"]


class _Standing(Struct, kw_only=True):
    """One target. due_at: of its next check. slower: by this factor, because of 429s.

    failing_since: when the first of the failed checks in a row ended; `None` after one that passed.
    judged: a check has ended; of those before a reload or a restart nothing is known.
    request: that the backend answers. ended: attempts at each backend when a check was last due.
    """

    target: CheckTarget
    due_at: float
    running: asyncio.Task[None] | None = None
    slower: float = 1.0
    failing_since: float | None = None
    judged: bool = False
    request: Request | None = None
    ended: dict[Breaker, int] = {}

    def is_in_use(self, at: float) -> bool:
        """Whether clients' requests of this process have shown since then that it works."""
        breakers = [one.breaker for one in self.target.backends]
        return all(one.is_up(at) and one.outcomes.ever > self.ended.get(one, 0) for one in breakers)

    def note_ended(self) -> None:
        """What has been counted so far is known; later attempts are those of clients."""
        self.ended = {one.breaker: one.breaker.outcomes.ever for one in self.target.backends}


class HealthChecks:
    """`run` it, or call `tick` whenever a check may be due. Times are the clock's seconds."""

    def __init__(
        self,
        config: Callable[[], Config],
        backends: Callable[[], Mapping[str, Backend]],
        watch: BackendWatch,
        registry: CollectorRegistry,
        *,
        clock: Callable[[], float] = now,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """config, backends: those in effect. watch: sends events. draw: uniform in [0, 1)."""
        self._config, self._backends = config, backends
        self._watch = watch
        self._clock, self._draw = clock, draw
        self._followed: Mapping[str, Backend] | None = None
        self._known: dict[str, _Standing] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._still_at = float("-inf")
        self._contexts = TlsContexts()
        self._counts = FastCounter(
            "strowger_health_checks",
            "Health checks by outcome; limited: answered with 429, rejected: not understood.",
            ("provider", "outcome"),
            registry=registry,
        )

    async def run(self) -> None:
        """Check until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                due_at = loop.time() + TICK_S
                await asyncio.sleep(TICK_S)
                if loop.time() - due_at > STILL_S:
                    self._still_at = loop.time()
                self.tick()
        finally:
            await self.close()

    def tick(self) -> None:
        """Begin the checks that are due."""
        backends = self._backends()
        if backends is not self._followed:
            self._follow(backends)
        at = self._clock()
        for standing in self._known.values():
            if at >= standing.due_at and standing.running is None:
                self._begin(standing, at)

    async def idle(self) -> None:
        """Wait until no check is in flight."""
        while running := [one.running for one in self._known.values() if one.running is not None]:
            await asyncio.wait(running)

    async def close(self) -> None:
        """End the checks in flight, without a result."""
        running = [one.running for one in self._known.values() if one.running is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._known, self._followed = {}, None

    def _follow(self, backends: Mapping[str, Backend]) -> None:
        """Check the targets of these backends; the first check of a new one is soon."""
        self._followed, before = backends, self._known
        self._known, self._contexts = {}, TlsContexts()
        at = self._clock()
        for name, target in targets_of(self._config(), backends).items():
            old = before.pop(name, None)
            if old is not None and old.target.check == target.check:
                old.target = target
                self._known[name] = old
            else:
                due_at = at + target.check.every_s * self._draw()
                self._known[name] = _Standing(target=target, due_at=due_at)
        for old in before.values():
            if old.running is not None:
                old.running.cancel()

    def _begin(self, standing: _Standing, at: float) -> None:
        target = standing.target
        if all(
            one.breaker.hold is not None and one.breaker.hold.state == "disabled"
            for one in target.backends
        ):
            standing.due_at = at + target.check.every_s
            return  # nothing reaches it, not even a check
        waits = [one.breaker.cooldown_left(at) for one in target.backends]
        if waits and min(waits) > 0:
            standing.due_at = at + min(waits)
            return
        spread = 1.0 - JITTER + 2 * JITTER * self._draw()
        standing.due_at = at + target.check.every_s * standing.slower * spread
        in_use = target.check.path is None and standing.is_in_use(at)
        standing.note_ended()
        if in_use:
            return  # clients' requests show that it works
        standing.running = asyncio.create_task(self._check(standing))

    async def _check(self, standing: _Standing) -> None:
        target, error, began = standing.target, None, self._clock()
        try:
            async with self._slots:
                sent_at = asyncio.get_running_loop().time()
                try:
                    standing.request = await _sent(target, standing.request, self._contexts)
                except GatewayError as exc:
                    error = exc
                except TimeoutError:
                    error = UpstreamTimeout(
                        f"no answer to the health check within {target.check.within_s:g} s",
                        upstream=target.provider.name,
                    )
            if isinstance(error, UpstreamTimeout):
                await asyncio.sleep(0)  # a tick that is late, too, runs first
                if self._still_at >= sent_at:
                    standing.due_at = self._clock()
                    return
            self._judge(standing, target, error, began)
        finally:
            standing.running = None

    def _judge(
        self, standing: _Standing, target: CheckTarget, error: GatewayError | None, began: float
    ) -> None:
        """Apply the result of a check to the breakers; count it, and report a change."""
        outcome, at = _outcome(error), self._clock()
        self._counts.add((target.provider.name, outcome))
        standing.slower = (
            min(2.0 * standing.slower, SLOWEST) if isinstance(error, UpstreamBusy) else 1.0
        )
        for backend in target.backends:
            if error is not None:
                _fail(backend, error, at)
            elif target.check.path is None:
                backend.breaker.heal(at)
            else:
                backend.breaker.vouch(at, began)
                for _, breaker in backend.breakers:
                    breaker.vouch(at, began)
        standing.note_ended()
        if outcome in ("failed", "rejected"):
            if standing.failing_since is None:
                standing.failing_since = at
                self._send("check_failed", target, error, None)
        elif outcome == "passed" and (standing.failing_since is not None or not standing.judged):
            # The first one as well, for an earlier check may have failed last; if none has, it is
            # no news to the events.
            lasted = None if standing.failing_since is None else at - standing.failing_since
            standing.failing_since = None
            self._send("check_passed", target, None, lasted)
        standing.judged = standing.judged or outcome != "limited"

    def _send(
        self,
        kind: Literal["check_failed", "check_passed"],
        target: CheckTarget,
        error: GatewayError | None,
        duration_s: float | None,
    ) -> None:
        code, message = cause_of(None if error is None else (error, None))
        self._watch.send(
            BackendEvent(
                time=self._watch.wall(),
                kind=kind,
                model="",
                backend=target.name,
                phase="up" if error is None else "failing",
                code=code,
                message=message,
                duration_s=duration_s,
            )
        )


async def _sent(
    target: CheckTarget, known: Request | None, contexts: TlsContexts
) -> Request | None:
    """Send the check and read its answer; return the request that was answered.

    known: that of earlier checks. Until one is, a request that the backend refuses may be of
    another task than its model's. Raises GatewayError, TimeoutError.
    """
    check, backend = target.check, target.backends[0]
    if check.path is not None:
        async with asyncio.timeout(check.within_s):
            await get(target.provider, check.path, target.address, check.within_s, contexts)
        return None
    first: GatewayError | None = None
    requests = [request for _, request in smallest_requests(backend)]
    for request in requests if known is None else (known,):
        try:
            await send(backend, request, check.within_s)
        except (UpstreamRejected, UpstreamRefused) as exc:
            if isinstance(exc, UpstreamRefused) and exc.about == "account":
                raise
            first = first or exc
        else:
            return request
    if first is not None:
        raise first
    return None


def _outcome(error: GatewayError | None) -> Outcome:
    if error is None:
        return "passed"
    if isinstance(error, UpstreamBusy):
        return "limited"
    return "failed" if isinstance(error, UpstreamError) else "rejected"


def _fail(backend: Backend, error: GatewayError, at: float) -> None:
    """Count a failed check as a failed attempt; one that is rejected says nothing."""
    breaker = backend.breaker
    breaker.failing_on = error, None
    try:
        if isinstance(error, UpstreamBusy):
            _pause(breaker, error, at)
        elif isinstance(error, UpstreamRefused):
            if concerns_backend(error, wildcard=backend.model == "*"):
                breaker.refuse(
                    at,
                    new_request_id(),
                    certain=error.about == "account",
                    retry_after=error.retry_after,
                    probe=False,
                    draw=random.random(),
                )
        elif isinstance(error, UpstreamError) and error.counts:
            if backend.model == "*":
                breaker.count_failure(at)  # requests go by the breakers of their models' names
                breaker.moved()
            else:
                breaker.fail(at, probe=False, draw=random.random())
                if isinstance(error, UpstreamOverloaded) and error.retry_after:
                    breaker.cool_down(at, error.retry_after, probe=False, limited=False)
    finally:
        breaker.failing_on = None


def _pause(breaker: Breaker, error: UpstreamBusy, at: float) -> None:
    if error.retry_after is None:
        breaker.deprioritise(at, random.random(), probe=False)
    else:
        breaker.cool_down(at, error.retry_after, probe=False)
