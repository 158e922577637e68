"""Metrics of the limits of one process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from time import monotonic_ns
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.governance.limits.ledger import Account
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.window import ConcurrencySlots, Window

MOST_ACCOUNTS: Final = 1000
"""Accounts in the metrics of use: those with the least room."""

MOST_END_USERS: Final = 20
"""Of those, accounts of end users of one limit: each is a series of its own in Prometheus."""


QUANTITIES: Final = ("requests", "tokens", "concurrent")
"""What a limit counts. Each has metrics of its own, because their units differ."""


class LimitCollector(Collector):
    """Requests refused, and requests that wait or have waited, by limit."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits

    def collect(self) -> Iterable[Metric]:
        refused = CounterMetricFamily(
            "strowger_limit_refused_requests",
            "Requests refused by a limit, by what it lacked room for.",
            labels=["limit", "quantity"],
        )
        for (limit, quantity), count in self._limits.refused.items():
            refused.add_metric([limit, quantity], count)
        yield refused
        yield GaugeMetricFamily(
            "strowger_limit_waiting_requests",
            "Requests that wait for room in a limit.",
            value=self._limits.queue.waiting,
        )
        waited = CounterMetricFamily(
            "strowger_limit_waited_requests",
            "Requests that have waited for room in a limit: admitted, refused, or gone.",
            labels=["limit", "outcome"],
        )
        for (limit, outcome), count in self._limits.queue.ended.items():
            waited.add_metric([limit, outcome], count)
        yield waited


class LimitUseCollector(Collector):
    """How much of each limit is used now, by subject; what is leased to processes counts as used.

    Only accounts that are in use, and of those at most MOST_ACCOUNTS, and MOST_END_USERS of a
    limit: a key, team or user that has sent nothing for a whole period has none.
    """

    def __init__(self, accounts: Callable[[], Sequence[Account]]) -> None:
        """accounts: of all processes of this gateway."""
        self._accounts = accounts

    def collect(self) -> Iterable[Metric]:
        pairs = [
            [
                GaugeMetricFamily(
                    f"strowger_limit_{name}_{unit}", f"{what}.", labels=["limit", "subject"]
                )
                for name, what in (
                    ("allowed", "What a limit allows in any span of one period, or at once"),
                    ("used", "What is used of a limit now, with what processes have leased"),
                )
            ]
            for unit in ("requests", "tokens", "concurrent_requests")
        ]
        families = dict[str, list[GaugeMetricFamily]](zip(QUANTITIES, pairs, strict=True))
        for account in self._fullest():
            for quantity, part in _parts(account):
                allowed, used = families[quantity]
                place = [account.limit, account.subject]
                allowed.add_metric(place, part.limit)
                used.add_metric(place, part.limit - part.room)
        for pair in pairs:
            yield from pair

    def _fullest(self) -> list[Account]:
        at = monotonic_ns()
        found: list[Account] = []
        for account in self._accounts():
            for _, part in _parts(account):
                if isinstance(part, Window):
                    part.expire(at)
            if not account.unused or not account.subject:
                found.append(account)
        return list(islice(_few_end_users(sorted(found, key=_room)), MOST_ACCOUNTS))


def _few_end_users(accounts: Iterable[Account]) -> Iterator[Account]:
    shown: dict[str, int] = {}
    for one in accounts:
        if one.one_of_many:
            count = shown[one.limit] = shown.get(one.limit, 0) + 1
            if count > MOST_END_USERS:
                continue
        yield one


def _room(account: Account) -> float:
    """The least share that is left of any quantity."""
    return min(part.room / part.limit for _, part in _parts(account))


def _parts(account: Account) -> list[tuple[str, Window | ConcurrencySlots]]:
    named: tuple[tuple[str, Window | ConcurrencySlots | None], ...] = (
        ("requests", account.requests),
        ("tokens", account.tokens),
        ("concurrent", account.slots),
    )
    return [(quantity, part) for quantity, part in named if part is not None]
