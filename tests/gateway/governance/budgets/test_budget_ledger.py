"""The accounts over random histories: never refused without reason, and nothing stays reserved.

STROWGER_BUDGET_HISTORIES: how many the nightly run tries.
"""

import os
import random
from datetime import UTC, datetime

import pytest
from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import Budget, CountUsd
from strowger_gateway.gateway.config.schema.limits import LimitWho
from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.lease_worker import BudgetLeaseWorker
from strowger_gateway.gateway.governance.budgets.ledger import Cost, Reservation, lease_place
from strowger_gateway.gateway.governance.leases.messages import LeaseRecall
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, grouped
from strowger_gateway.gateway.routing.request_record import AttemptRecord

pytestmark = pytest.mark.anyio

HISTORIES = 800
NIGHTLY = int(os.environ.get("STROWGER_BUDGET_HISTORIES", "100000"))
STEPS = 24
START = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
BUDGETS = (
    Budget(name="own", who=LimitWho(key="a"), usd=3e-6, per="day"),
    Budget(name="all", who=LimitWho(any=True), usd=7e-6, per="week",
           unknown_price=CountUsd(count_usd=1e-7)),
    Budget(name="tokens", who=LimitWho(any=True), each="key", tokens=4000, per="month"),
    Budget(name="cheap", who=LimitWho(any=True), models=("b*",), usd=2e-6, per="total"),
)  # fmt: skip
LIMITS = {"own": 3000, "all": 7000, "tokens": 4000, "cheap": 2000}
"""In 10⁻⁹ US dollars, or tokens."""


class Sent(Struct, eq=False):
    """What the test itself remembers of a request."""

    id: str
    worker: int
    key: str
    model: str
    cost: Cost
    reservation: Reservation


class Paid(Struct, frozen=True):
    """What the record of a request says."""

    time: float
    key: str
    model: str
    nanos: int | None
    tokens: int


def applies(budget: str, subject: str, key: str, model: str) -> bool:
    match budget:
        case "own":
            return key == "a"
        case "tokens":
            return key == subject
        case "cheap":
            return model.startswith("b")
        case _:
            return True


def counts(budget: str, paid: Paid) -> int:
    if budget == "tokens":
        return paid.tokens
    return (100 if budget == "all" else 0) if paid.nanos is None else paid.nanos


def same_period(budget: str, then: float, now: float) -> bool:
    """The definition, in UTC: the day, the ISO week, the month, or ever."""
    one, other = datetime.fromtimestamp(then, UTC), datetime.fromtimestamp(now, UTC)
    match budget:
        case "own":
            return one.date() == other.date()
        case "all":
            return one.isocalendar()[:2] == other.isocalendar()[:2]
        case "tokens":
            return (one.year, one.month) == (other.year, other.month)
        case _:
            return True


class World:
    """A leader with some workers, whose messages arrive at once."""

    def __init__(self, draws: random.Random) -> None:
        self.draws = draws
        self.now = START
        self.leader = BudgetLeaseLeader(lambda: BUDGETS, clock=lambda: self.now)
        self.workers: list[tuple[Budgets, BudgetLeaseWorker]] = []
        for number in range(draws.choice((1, 1, 2, 3))):
            self._join(number)
        self.sent: list[Sent] = []
        self.paid: list[Paid] = []
        self.ids = 0
        self.overrun: dict[str, int] = {}
        self.stepped_back = False

    def _join(self, number: int) -> None:
        budgets = Budgets(BUDGETS, f"writer-{number}")
        leases = BudgetLeaseWorker(
            budgets, lambda message: self.leader.on_message(number, message), lambda: None
        )
        self.leader.join(number, leases.on_message)
        self.workers.append((budgets, leases))

    def settled(self, budget: str, subject: str) -> int:
        return sum(
            counts(budget, paid)
            for paid in self.paid
            if applies(budget, subject, paid.key, paid.model)
            and same_period(budget, paid.time, self.now)
        )

    def reserved(self, budget: str, subject: str) -> int:
        return sum(
            sent.cost.tokens if budget == "tokens" else sent.cost.nanos
            for sent in self.sent
            if applies(budget, subject, sent.key, sent.model)
        )

    def has_room(self, key: str, model: str, cost: Cost) -> bool:
        """The definition: what is settled and reserved, and this request, within every budget."""
        return all(
            self.settled(name, key)
            + self.reserved(name, key)
            + (cost.tokens if name == "tokens" else cost.nanos)
            <= limit
            for name, limit in LIMITS.items()
            if applies(name, key, key, model)
        )

    async def request(self) -> None:
        draws = self.draws
        worker, key, model = (
            draws.randrange(len(self.workers)),
            draws.choice("aab"),
            draws.choice(("big", "small")),
        )
        budgets, leases = self.workers[worker]
        cost = Cost(draws.randrange(1200), draws.randrange(900))
        expected = self.has_room(key, model, cost)
        own = budgets.of((key, model, model, "", "", "", ""))
        assert own is not None
        found = own.reserve(cost) or await leases.ask(own, cost)

        assert isinstance(found, Reservation) or not expected, "refused although there is room"
        if isinstance(found, Reservation):
            self.ids += 1
            sent = Sent(str(self.ids), worker, key, model, cost, found)
            budgets.holds[sent.id] = found
            self.sent.append(sent)
            self.check_limits(key, model)

    def check_limits(self, key: str, model: str) -> None:
        """Only requests that used more than they had reserved exceed a limit.

        After a step back of the clock, leases are of a period of which less was known.
        """
        for name, limit in LIMITS.items():
            if applies(name, key, key, model) and not self.stepped_back:
                used = self.settled(name, key) + self.reserved(name, key)
                assert used <= limit + self.overrun.get(name, 0), "admitted without room"

    def end(self, sent: Sent) -> None:
        """The request has ended: its reservation becomes what its record says, if it has one."""
        draws = self.draws
        self.sent.remove(sent)
        used, unpriced = draws.random() > 0.1, draws.random() < 0.1
        nanos, tokens = draws.randrange(1500), draws.randrange(1000)
        line = AccessLine(
            time=self.now, request_id=sent.id, surface="openai", status=200, ms=1.0, key=sent.key,
            model=sent.model, route=sent.model, backend="r/m",
            attempts=(AttemptRecord(backend="r/m", outcome="ok"),),
            usage_source="reported" if used else "",
            prompt_tokens=tokens // 3, completion_tokens=tokens - tokens // 3,
            cost_usd=None if unpriced else nanos / 1e9,
        )  # fmt: skip
        self.workers[sent.worker][0].finished(EndedRequests((), (), grouped([line]), (), 0, 0.0))
        if used:
            spent = None if unpriced else nanos
            paid = Paid(self.now, sent.key, sent.model, spent, tokens)
            self.paid.append(paid)
            for name in LIMITS:
                reserved = sent.cost.tokens if name == "tokens" else sent.cost.nanos
                over = max(0, counts(name, paid) - reserved)
                self.overrun[name] = self.overrun.get(name, 0) + over

    async def run(self) -> None:
        for _ in range(STEPS):
            match self.draws.choice("rrrrrreeept"):
                case "e" if self.sent:
                    self.end(self.draws.choice(self.sent))
                case "p":
                    self.draws.choice(self.workers)[1].report_now()
                case "t":
                    step = self.draws.choice((1, 3600, 43_200, 86_400, 700_000, -43_200))
                    self.stepped_back |= step < 0
                    self.now += step
                case _:
                    await self.request()

    def check_end(self) -> None:
        for sent in tuple(self.sent):
            self.end(sent)
        accounts = tuple(self.leader.accounts)
        places = tuple(
            [
                lease_place(one.budget.name, one.subject, usd=one.budget.usd is not None)
                for one in accounts
            ]
        )
        for _, leases in self.workers:
            leases.on_message(LeaseRecall(id=-1, places=places))
        self.leader.accounts.turn(self.now)
        for account in accounts:
            assert account.reserved == 0, "something is reserved for ever"
            name = account.budget.name
            assert account.spent == self.settled(name, account.subject)


async def play(histories: int) -> None:
    for seed in range(histories):
        world = World(random.Random(seed))
        try:
            await world.run()
            world.check_end()
        except AssertionError as exc:
            raise AssertionError(f"history {seed}: {exc}") from exc


async def test_a_request_is_refused_only_if_a_budget_lacks_room_and_nothing_stays_reserved() -> (
    None
):
    await play(HISTORIES)


async def test_all_workers_give_back_before_a_refusal_whichever_budget_lacks_room() -> None:
    """History 63,351 found it: what one gave back showed that another budget lacked room."""
    world = World(random.Random(63_351))
    await world.run()
    world.check_end()


@pytest.mark.nightly
async def test_budgets_hold_over_many_more_histories() -> None:
    await play(NIGHTLY)
