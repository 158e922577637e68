"""A model whose backends take as long as a script says, on a clock that a test moves."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.execution.attempt import begun, start_attempt
from strowger_gateway.gateway.routing.execution.attempt_sequence import PrimaryAttempt
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Backend, Route, RouteTable
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.slowness.siblings import Siblings
from strowger_gateway.schemas.requests import CompletionRequest
from tests.gateway.routing.backends import backend_with

GOLDEN = (5**0.5 - 1) / 2
"""Its multiples are as even as draws can be."""

RULE = BreakerRule()
CLOCK_S = 1000.0
STREAMS_S = 0.5
"""How long a stream goes on behind its first token."""


class Script(Struct, frozen=True, kw_only=True):
    """seconds: to the first token, by the time since the start and the key of the request.

    waits_s: how much of it the request waits in a queue of the gateway.
    """

    seconds: Callable[[float, str], float]
    waits_s: float = 0.0


class Sent(Struct, frozen=True, kw_only=True):
    """at: since the start."""

    at: float
    backend: str
    key: str


class World:
    """One worker of a gateway with one model; every other one shares what it knows.

    fallback: names of backends of another model, behind those of the model.
    """

    def __init__(
        self,
        scripts: Mapping[str, Script],
        policy: str = "in_order",
        *,
        weights: Mapping[str, float] | None = None,
        fallback: Sequence[str] = (),
        rule: BreakerRule = RULE,
    ) -> None:
        self.now = CLOCK_S
        self.scripts = scripts
        self.sent: list[Sent] = []
        self._draws = (number * GOLDEN % 1.0 for number in count())
        self._order = count()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        siblings = Siblings("m", lambda: self.now, self._later)
        supports = Supports(completion=frozenset())
        self.backends: dict[str, Backend] = {
            name: replace(
                backend_with(name, supports),
                siblings=None if name in fallback else siblings,
                breaker=Breaker(rule),
                timed=True,
            )
            for name in scripts
        }
        own = [one for name, one in self.backends.items() if name not in fallback]
        given = weights or {}
        self.route = Route(
            name="m",
            backends=tuple(own),
            weights=tuple(given.get(one.name, 1.0) for one in own),
            policy=POLICIES[policy],
            fallback=("spare",) if fallback else (),
        )
        spare = Route(
            name="spare",
            backends=tuple(self.backends[name] for name in fallback),
            weights=tuple(1.0 for _ in fallback),
            policy=POLICIES["in_order"],
        )
        self.planner = Planner(RouteTable([self.route, spare], {}))

    def order(self, key: str = "k1") -> list[str]:
        """The names in the order in which a request would try them now."""
        facts = RequestFacts(uniform_draw=next(self._draws), now=self.now, caller=key)
        request = CompletionRequest(model="m", prompts=("hi",))
        return [one.name for one in self.planner.plan(self.route, request, facts).candidates]

    def run(
        self,
        until: float,
        every_s: float = 0.2,
        keys: Sequence[str] = ("k1", "k2"),
        prompt: Callable[[str], str] = lambda _: "hi",
    ) -> None:
        """Send a stream every so many seconds, by each key in turn, until then."""
        at = self.now
        for number in count():
            self._advance(at)
            if self.now - CLOCK_S >= until:
                return
            self.send(keys[number % len(keys)], prompt(keys[number % len(keys)]))
            at += every_s

    def send(self, key: str, prompt: str = "hi") -> None:
        """One stream, to the first backend of its plan."""
        request = CompletionRequest(model="m", prompts=(prompt,), stream=True)
        facts = RequestFacts(uniform_draw=next(self._draws), now=self.now, caller=key)
        plan = self.planner.plan(self.route, request, facts)
        candidate, at = plan.candidates[0], self.now
        record = RequestRecord(request_id="r", started=at, attempts=[], stream=True, caller=key)
        entry = start_attempt(candidate, record, at)
        call = Call(model="m", deadline=at + 600, request_id="r")
        probe = candidate.breaker.begin(at)
        attempt = begun(PrimaryAttempt(candidate, request, call, record, entry, at, plan, probe))
        self.sent.append(Sent(at=at - CLOCK_S, backend=candidate.name, key=key))
        script = self.scripts[candidate.name]
        entry.waited_s = script.waits_s
        first = script.seconds(at - CLOCK_S, key)
        self._later(first, lambda: attempt.on_first_content(self.now))
        self._later(first + STREAMS_S, lambda: attempt.succeed(self.now))

    def stand(self, seconds: float) -> None:
        """The process stands still: nothing that is due is done in time."""
        self.now += seconds

    def share(self, backend: str, since: float, until: float) -> float:
        """Of the requests sent in that time, the part that went there."""
        found = [one.backend == backend for one in self.sent if since <= one.at < until]
        return sum(found) / len(found)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (self.now + seconds, next(self._order), call))

    def _advance(self, to: float) -> None:
        while self._calls and self._calls[0][0] <= to:
            at, _, call = heapq.heappop(self._calls)
            self.now = max(self.now, at)
            call()
        self.now = max(self.now, to)


def steady(seconds: float) -> Script:
    return Script(seconds=lambda at, key: seconds)


def slow_between(since: float, until: float, normal: float = 0.1, slow: float = 2.0) -> Script:
    return Script(seconds=lambda at, key: slow if since <= at < until else normal)
