"""Alerts of budgets: once per subject, threshold and period, signed, until they are accepted."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.alert_rows import AlertRows
from strowger_gateway.gateway.governance.budgets.alerts import GIVE_UP_S, BudgetAlerts
from strowger_gateway.gateway.governance.budgets.totals import SpendTotals
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import RequestRow
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import attempt_row
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.webhook_receiver import Receiver, receiver, verified

pytestmark = pytest.mark.anyio

NOON = 4_000_017_600.0
"""Within a UTC day, Unix seconds."""
DAY_S = 86_400
SECRET = "secret-of-the-receiver"
CONFIG = """
providers: [{name: p, adapter: openai, base_url: "https://p.example/v1", api_key: k}]
models: [{name: chat, backends: [{provider: p, model: m}]}]
prices: [{match: p/*, input: 1, output: 1}]
budgets:
"""
ALL = "  - {name: all, who: {any: true}, usd: 10, per: day, alerts: [0.5, 0.8, 1.0]}\n"
EACH = "  - {name: per-key, who: {any: true}, each: key, usd: 4, per: day, alerts: [0.75]}\n"


class Clock:
    """Unix seconds, which a test moves."""

    def __init__(self, at: float = NOON) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def store(tmp_path: Path) -> Generator[SqlStore]:
    found = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SqlStore]:
    """A store on each database."""
    url = f"sqlite:///{tmp_path / 'either.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    found = open_store(Secret(url))
    yield found
    found.close()


def configured(budgets: str, *hooks: Receiver, more: str = "", timeout_s: float = 20) -> Config:
    """timeout_s: short only where a receiver hangs; no retry is due while the clock stands."""
    lines = [
        f"  - {{name: hook-{place}, url: '{one.url}', secret: {SECRET}, "
        f"timeout_s: {timeout_s}{more}}}"
        for place, one in enumerate(hooks)
    ]
    text = CONFIG + budgets + ("webhooks:\n" + "\n".join(lines) if lines else "")
    return read_config(text, source="config.yaml", env={})


@asynccontextmanager
async def alerting(
    config: Config, store: SqlStore, clock: Clock
) -> AsyncGenerator[BudgetAlerts, None]:
    """The job of one gateway."""
    alerts = BudgetAlerts(
        lambda: config.budgets, lambda: config, store, clock, check_s=0.02, close_s=60
    )
    alerts.start()
    try:
        yield alerts
    finally:
        await alerts.close()


_numbers = count()


def spend(store: SqlStore, usd: float, key: str = "k", at: float = NOON) -> None:
    """A request is recorded and reaches the store."""
    name = f"r-{next(_numbers)}"
    row = RequestRow(
        surface="openai",
        request_id=name,
        time=at,
        status=200,
        ms=1.0,
        key=key,
        model="chat",
        route="chat",
    )
    store.import_rows(f"file-{name}", 0, 1, [row, attempt_row(name, time=at, cost=usd)])


def passed(hook: Receiver) -> list[tuple[object, object, object]]:
    """What was accepted."""
    return [
        (one.json["budget"], one.json["subject"], one.json["threshold"])
        for one in hook.events
        if one.answered // 100 == 2
    ]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110  no event to wait for
            await asyncio.sleep(0.005)


async def test_each_threshold_is_an_alert_once_also_after_a_restart(either: SqlStore) -> None:
    clock = Clock()
    async with receiver() as hook:
        config = configured(ALL, hook)
        spend(either, 4.99)
        async with alerting(config, either, clock) as alerts:
            spend(either, 0.01)
            await hook.until(lambda: len(hook.events) == 1)
            spend(either, 5.0)  # passes two
            await hook.until(lambda: len(hook.events) == 3)
            assert alerts.made == {("all", 0.5): 1, ("all", 0.8): 1, ("all", 1.0): 1}
            await until(lambda: alerts.outcomes["hook-0", "delivered"] == 3)
        async with alerting(config, either, clock) as alerts:
            spend(either, 1.0)
            clock.at += DAY_S
            spend(either, 5.0, at=clock.at)  # the next period
            await hook.until(lambda: len(hook.events) == 4)
            assert alerts.made == {("all", 0.5): 1}

    assert passed(hook) == [("all", "", share) for share in (0.5, 0.8, 1.0, 0.5)]
    first: dict[str, Any] = hook.events[0].json
    assert (first["type"], first["unit"]) == ("budget.threshold_passed", "usd")
    assert (first["limit"], first["spent"]) == (10.0, 5.0)
    assert first["period"]["per"] == "day"
    assert "has passed 50 %: 5.00 of 10.00 USD" in first["text"]
    assert first["used_up_at"], "half of it is spent in a few minutes"
    assert (
        f"at the recent rate it is used up at {first['used_up_at']}; it begins again"
        in first["text"]
    )
    assert len({one.json["id"] for one in hook.events}) == 4
    for one in hook.events:
        assert one.path == "/hooks/budgets?source=gateway"
        assert one.headers["x-strowger-alert"] == one.json["id"]
        assert verified(one, SECRET, NOON if one is not hook.events[-1] else clock.at)
        assert not verified(one, "another secret", NOON)


async def test_a_gateway_that_stops_during_an_attempt_notes_its_outcome(either: SqlStore) -> None:
    """The next start, when the attempt would be due again, sends nothing."""
    clock = Clock()
    async with receiver() as hook:
        config = configured(ALL, hook)
        spend(either, 5.0)
        async with alerting(config, either, clock):
            await hook.until(lambda: len(hook.events) == 1)  # its answer may not have arrived
        clock.at += 10_000
        async with alerting(config, either, clock) as alerts:
            spend(either, 3.0, at=clock.at)
            await until(lambda: alerts.outcomes["hook-0", "delivered"] == 1)

    assert passed(hook) == [("all", "", 0.5), ("all", "", 0.8)]


async def test_two_gateways_with_one_store_make_each_alert_once(either: SqlStore) -> None:
    clock = Clock()
    async with receiver() as hook:
        config = configured(ALL + EACH, hook)
        async with alerting(config, either, clock) as one, alerting(config, either, clock) as two:
            for _ in range(10):
                spend(either, 1.0, "web")
                await asyncio.sleep(0.02)
            await hook.until(lambda: len(hook.events) == 4)
            spend(either, 3.0, "batch")
            await hook.until(lambda: len(hook.events) == 5)
            made = one.made + two.made

    assert sorted(passed(hook), key=str) == sorted(
        [("all", "", share) for share in (0.5, 0.8, 1.0)]
        + [("per-key", "web", 0.75), ("per-key", "batch", 0.75)],
        key=str,
    )
    assert set(made.values()) == {1, 2}  # two subjects of one budget
    assert made.total() == 5


async def test_a_receiver_that_fails_or_hangs_gets_the_same_alert_until_it_accepts_it(
    store: SqlStore,
) -> None:
    clock = Clock()
    async with receiver() as broken, receiver() as healthy:
        broken.script = [500, 503, 0, 302, 200]
        config = configured(ALL, broken, healthy, timeout_s=2)
        async with alerting(config, store, clock) as alerts:
            spend(store, 5.0)
            for attempt in range(1, 6):
                await broken.until(lambda attempt=attempt: len(broken.events) == attempt)
                failed = min(attempt, 4)
                await until(lambda n=failed: alerts.outcomes["hook-0", "failed"] == n)
                clock.at += 400
            await until(lambda: alerts.outcomes["hook-0", "delivered"] == 1)
            clock.at += 10_000
            await until(lambda: alerts.waiting == 0)
            spend(store, 3.0)
            await broken.until(lambda: len(broken.events) == 6)
            await healthy.until(lambda: len(healthy.events) == 2)

    assert [one.answered for one in broken.events] == [500, 503, 0, 302, 200, 204]
    assert len({one.body for one in broken.events[:5]}) == 1
    assert passed(healthy) == [("all", "", 0.5), ("all", "", 0.8)]
    signed = [one.headers["x-strowger-signature"] for one in broken.events]
    assert len(set(signed)) == 6  # each attempt has its own time
    assert alerts.outcomes["hook-0", "failed"] == 4
    assert all(verified(one, SECRET, NOON + 400 * n) for n, one in enumerate(broken.events[:5]))


async def test_the_delay_between_attempts_grows_to_five_minutes(store: SqlStore) -> None:
    clock = Clock()
    async with receiver() as hook:
        hook.script = [500] * 12
        config = configured(ALL, hook)
        waits: list[float] = []
        async with alerting(config, store, clock) as alerts:
            spend(store, 5.0)
            for attempt in range(1, 12):
                await until(lambda n=attempt: alerts.outcomes["hook-0", "failed"] == n)
                rows = alerts.waiting
                with store.database.reading() as session:
                    ((due,),) = session.rows(
                        tuple[float], "SELECT due FROM budget_alert_deliveries"
                    )
                waits.append(due - clock.at)
                clock.at = due
                assert rows == 1

    for wait, expected in zip(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300], strict=True):
        assert expected <= wait <= 1.11 * expected


async def test_a_delivery_is_given_up_after_a_day(store: SqlStore) -> None:
    clock = Clock()
    async with receiver() as hook:
        hook.script = [500, 500]
        async with alerting(configured(ALL, hook), store, clock) as alerts:
            spend(store, 5.0)
            await until(lambda: alerts.outcomes["hook-0", "failed"] == 1)
            clock.at += GIVE_UP_S
            await until(lambda: alerts.outcomes["hook-0", "given_up"] == 1)
            await until(lambda: alerts.waiting == 0)

    assert len(hook.events) == 2


async def test_a_webhook_gets_the_alerts_of_its_budgets(store: SqlStore) -> None:
    async with receiver() as some, receiver() as others:
        config = configured(ALL + EACH, some, others, more=", budgets: [per-*]")
        async with alerting(config, store, Clock()):
            spend(store, 10.0)
            await others.until(lambda: len(others.events) == 1)
            await some.until(lambda: len(some.events) == 1)

    assert passed(some) == passed(others) == [("per-key", "k", 0.75)]


async def test_records_that_come_after_the_end_of_their_period_are_its_alerts(
    store: SqlStore,
) -> None:
    midnight = NOON // DAY_S * DAY_S + DAY_S
    async with receiver() as hook:
        async with alerting(configured(ALL, hook), store, Clock(midnight + 60)):
            spend(store, 6.0, at=midnight - 1)
            await hook.until(lambda: len(hook.events) == 1)

    period: Any = hook.events[0].json["period"]
    assert period["resets"].endswith("T00:00:00Z")
    assert hook.events[0].json["spent"] == 6.0


async def test_without_webhooks_alerts_are_made_and_counted(store: SqlStore) -> None:
    async with alerting(configured(ALL), store, Clock()) as alerts:
        spend(store, 5.0)
        await until(lambda: alerts.made["all", 0.5] == 1)
        marks = AlertRows(store.database).current(NOON)

    assert [(one.budget, one.threshold, one.created) for one in marks] == [("all", 0.5, NOON)]
    assert alerts.waiting == 0


@pytest.mark.parametrize(
    ("webhook", "message"),
    [
        ("{name: a, url: 'ftp://x', secret: 0123456789abcdef}", "url: is not a URL such as"),
        ("{name: a, url: 'https://u:p@x/y', secret: 0123456789abcdef}", "url: is not a URL"),
        ("{name: a, url: 'https://x'}", "secret: is missing"),
        ("{name: a, url: 'https://x', secret: ''}", "secret: is empty"),
        (
            "{name: a, url: 'https://x', secret: 0123456789abcdef, budgets: [al]}",
            'budgets[0]: no budget is named "al"',
        ),
        (
            "{name: a, url: 'https://x', secret: 0123456789abcdef, headers: {'a b': c}}",
            "is not a header",
        ),
        (
            "{name: a, url: 'https://x', secret: 0123456789abcdef, ca_file: nowhere.pem}",
            "ca_file: no such file",
        ),
    ],
)
def test_a_webhook_that_cannot_work_is_named(webhook: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        read_config(f"{CONFIG}{ALL}webhooks: [{webhook}]", source="c", env={})

    assert any(f"webhooks[0].{message}" in one or message in one for one in raised.value.problems)
    assert not any("0123456789abcdef" in one for one in raised.value.problems)


def chosen(numbers: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    for number in numbers:
        yield "abc"[number % 3], number % 7, number // 7 % 4


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 10_000), max_size=4), max_size=5))
def test_what_has_passed_is_what_the_records_add_up_to(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    """Read piece by piece or at once, over subjects and days."""
    budgets = configured(ALL + EACH).budgets
    store = open_store(Secret(f"sqlite:///{tmp_path_factory.mktemp('alerts') / 'store.db'}"))
    followed, seen = SpendTotals(store.spend), set[tuple[str, str, float]]()
    sums: dict[str, float] = {}
    try:
        for batch in batches:
            for key, usd, day in chosen(batch):
                spend(store, float(usd), key, NOON + DAY_S * (day - 1))
                if day == 1:
                    sums[key] = sums.get(key, 0) + usd
            found = followed.passed(budgets, NOON)
            seen |= {(one.budget.name, one.subject, one.threshold) for one in found}
        followed.passed(budgets, NOON)
        fresh = SpendTotals(store.spend).passed(budgets, NOON)
    finally:
        store.close()

    total = sum(sums.values())
    expected = {("all", "", share) for share in (0.5, 0.8, 1.0) if total >= 10 * share}
    expected |= {("per-key", key, 0.75) for key, usd in sums.items() if usd >= 3}
    assert seen == expected
    assert {(one.budget.name, one.subject, one.threshold) for one in fresh} == expected
