"""How often a circuit opens by chance, and how soon it opens for a dead backend.

python -m benchmarks.breaker [--requests 2000000] [--seed 1]

Simulates, on values and without a gateway, a backend that answers 80 % of its requests at 1, 10
and 100 requests per second (Poisson arrivals), once with the breaker of
gateway/routing/resilience/circuit_breaker.py and once with the rule that it replaced: at least 5
requests within 30 s of which half failed. After a start, an idle time or a closing of the circuit
the sample is small, so the first 50 requests are also counted separately. Then it simulates a
backend that dies after serving for a minute. The table is in docs/routing.md.
"""

import argparse
import random
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.table import Table

from strowger_gateway.gateway.config.schema.failover import BreakerRule as Rule
from strowger_gateway.gateway.routing.resilience.circuit_breaker import MIN_FAILED_SHARE, Breaker
from strowger_gateway.gateway.routing.resilience.recent_activity import SlidingCount

SUCCESS = 0.8
RATES = (1.0, 10.0, 100.0)
EARLY, STARTS = 50, 2000
HEALTHY_S = 60.0
"""Time that a backend serves before it dies."""


class Subject(Protocol):
    """A breaker; the simulation uses only its evidence. Times in seconds."""

    def succeed(self, now: float) -> None: ...
    def fail(self, now: float) -> bool:
        """True if this failure opened the circuit; it is then closed and reset."""
        ...


class Share:
    """The previous rule: a failure rate of 50 % among at least 5 requests within 30 s."""

    def __init__(self) -> None:
        self._tried, self._failed = SlidingCount(30.0), SlidingCount(30.0)

    def succeed(self, now: float) -> None:
        self._tried.add(now)

    def fail(self, now: float) -> bool:
        self._tried.add(now)
        self._failed.add(now)
        tried = self._tried.total
        opens = tried >= 5 and self._failed.at(now) >= 0.5 * tried
        if opens:
            self._tried.clear()
            self._failed.clear()
        return opens


class CumulativeSum:
    """The gateway's rule."""

    def __init__(self, rule: Rule | None = None) -> None:
        self._breaker = Breaker(rule or Rule())

    def succeed(self, now: float) -> None:
        self._breaker.outcomes.add(now)

    def fail(self, now: float) -> bool:
        self._breaker.fail(now, probe=False)
        opens = self._breaker.open_until is not None
        if opens:
            self._breaker.reset(now)
        return opens


def opened(subject: Subject, rate: float, requests: int, seed: int) -> int:
    """Number of openings. rate: requests per second."""
    draw = random.Random(seed)
    at, count = 1000.0, 0
    for _ in range(requests):
        at += draw.expovariate(rate)
        if draw.random() < SUCCESS:
            subject.succeed(at)
        else:
            count += subject.fail(at)
    return count


def opened_early(make: Callable[[], Subject], rate: float, seed: int) -> float:
    """Share of the starts after which it opened within the first `EARLY` requests."""
    starts = [opened(make(), rate, EARLY, seed + start) for start in range(STARTS)]
    return sum(map(bool, starts)) / STARTS


def seconds_to_open(subject: Subject, rate: float, seed: int) -> tuple[float, int]:
    """Seconds and failures from the death of a healthy backend until the circuit opens."""
    draw = random.Random(seed)
    at = dies = 1000.0 + HEALTHY_S
    at -= HEALTHY_S
    while at < dies:
        subject.succeed(at)
        at += draw.expovariate(rate)
    failures = 1
    while not subject.fail(at):
        failures += 1
        at += draw.expovariate(rate)
    return at - dies, failures


def between_openings(evidence: int, failing: float) -> float:
    """Requests between two openings by chance, on average, at a `failure_rate` of 0.5.

    The sum is a random walk with a barrier at 0. The expected time to reach a level has a closed
    form (Feller, An Introduction to Probability Theory I, chapter XIV). failing: the share of the
    requests that fail.
    """
    step = total = 1.0 / failing
    for _ in range(evidence - 1):
        step = (1.0 + (1.0 - failing) * step) / failing
        total += step
    return total


def _often(count: int, seconds: float) -> str:
    days = seconds / 86400
    return f"{count:,} ({count / days:,.0f} per day)" if count else "0"


def _average(seconds: float) -> str:
    years = seconds / 86400 / 365
    if years > 1000:
        return "over 1,000 years"
    return f"{years:.1f} years" if years > 1 else f"{years * 365:.0f} days"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=2_000_000, help="per rate and rule")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    requests, seed = int(args.requests), int(args.seed)
    rules: tuple[Callable[[], Subject], ...] = (Share, CumulativeSum)
    table = Table(title=f"{requests:,} requests at each rate, seed {seed}")
    for column in ("requests/s", "time", "opens: before", "now", "now, computed"):
        table.add_column(column)
    for column in ("early: before", "now", "dead: before", "now"):
        table.add_column(column)
    rule = Rule()
    for rate in RATES:
        counts = [opened(make(), rate, requests, seed) for make in rules]
        death = [seconds_to_open(make(), rate, seed) for make in rules]
        evidence = max(rule.min_requests, round(MIN_FAILED_SHARE * rate * rule.window_s))
        table.add_row(
            f"{rate:g}",
            f"{requests / rate / 3600:,.1f} h",
            *(_often(count, requests / rate) for count in counts),
            f"every {_average(between_openings(evidence, 1 - SUCCESS) / rate)}",
            *(f"{opened_early(make, rate, seed):.1%}" for make in rules),
            *(f"{seconds:.1f} s, {failures:,} failures" for seconds, failures in death),
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
