"""Alert when spend passes a share of a budget, once per subject and period; runs in the leader.

An alert is a row in the store. Whatever gateway inserts it has made it, so gateways, restarts and
reloads make it once. Its deliveries are rows, too, and are tried until a receiver accepts them.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from secrets import token_hex
from typing import Final, Literal, TypeVar

import msgspec

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.webhooks import Webhook
from strowger_gateway.gateway.governance.budgets.alert_rows import AlertRows, BudgetAlert, Delivery
from strowger_gateway.gateway.governance.budgets.report import BudgetStore, budget_report
from strowger_gateway.gateway.governance.budgets.rules import allowed, unit_of
from strowger_gateway.gateway.governance.budgets.totals import Passed, SpendTotals
from strowger_gateway.gateway.governance.budgets.webhook import WebhookError, send
from strowger_gateway.gateway.platform.background import OnCrash, ignore_crash, keep_running
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.spend_rows import NANOS

CHECK_S: Final = 2.0
"""Interval between looks into the store."""

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 300.0
"""Delay before the second attempt, doubled by each, and its maximum."""

GIVE_UP_S: Final = 86_400.0
"""A delivery is given up so long after its alert."""

CLOSE_S: Final = 2.0
"""How long attempts that are running may take to end when the gateway stops."""

CLAIM_S: Final = 30.0
"""Beyond its timeout, how long an attempt keeps other gateways from making one."""

Outcome = Literal["delivered", "failed", "given_up"]

_log = logging.getLogger("strowger.budgets")
_T = TypeVar("_T")


class BudgetAlerts:
    """`start` it with the gateway, and `close` it at the end.

    made: alerts by budget and threshold, of this gateway. outcomes: attempts by webhook and
    outcome. waiting: deliveries of all gateways that are not done, as of the last look.
    """

    def __init__(
        self,
        budgets: Callable[[], tuple[Budget, ...]],
        config: Callable[[], Config],
        store: BudgetStore,
        clock: Callable[[], float] = time.time,
        *,
        check_s: float = CHECK_S,
        close_s: float = CLOSE_S,
    ) -> None:
        """budgets, config: those in effect. clock: Unix seconds. close_s: see `close`."""
        self._check_s = check_s
        self._close_s = close_s
        self._closing = False
        self._budgets = budgets
        self._config = config
        self._store = store
        self._rows = AlertRows(store.database)
        self._totals = SpendTotals(store.spend)
        self._clock = clock
        self._threads = ThreadPoolExecutor(1, "alerts")
        self._running: asyncio.Task[None] | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._made: set[tuple[str, str, int, int, float]] = set()
        self.made: Counter[tuple[str, float]] = Counter()
        self.outcomes: Counter[tuple[str, Outcome]] = Counter()
        self.waiting = 0

    def start(self, crashed: OnCrash = ignore_crash) -> None:
        self._running = asyncio.create_task(keep_running("budget alerts", self._run, crashed))

    async def close(self) -> None:
        """Stop. Attempts that are running have `close_s` seconds to end.

        One that takes longer is repeated by another gateway or the next start.
        """
        self._closing = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if sending := tuple(self._sending.values()):
            await asyncio.wait(sending, timeout=self._close_s)
            for one in sending:
                one.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        try:
            while True:
                webhooks, budgets = self._config().webhooks, self._budgets()
                if webhooks or any(budget.alerts for budget in budgets):
                    with suppress(StoreUnavailable):  # which the budgets report
                        await self._look(budgets, webhooks)
                        await self._deliver(webhooks)
                await asyncio.sleep(self._check_s)
        finally:
            if not self._closing:
                for sending in self._sending.values():
                    sending.cancel()
                self._sending.clear()

    async def _look(self, budgets: Sequence[Budget], webhooks: Sequence[Webhook]) -> None:
        """Make the alerts of what has been passed."""
        passed = await self._in_thread(partial(self._totals.passed, budgets, self._clock()))
        try:
            for one in passed:
                await self._make(one, webhooks)
        except StoreUnavailable:
            self._totals.forget()
            raise

    async def _make(self, passed: Passed, webhooks: Sequence[Webhook]) -> None:
        budget, period = passed.budget, passed.period
        place = (budget.name, passed.subject, period.begin, period.end, passed.threshold)
        if place in self._made:
            return
        names = [one.name for one in webhooks if covers(one.budgets, budget.name)]
        at = self._clock()
        ends = await self._in_thread(partial(self._used_up_at, passed, at))
        alert = alert_of(passed, at, ends)
        new = await self._in_thread(partial(self._rows.add, alert, names))
        self._made.add(place)
        if new:
            self.made[budget.name, passed.threshold] += 1
            _log.warning("%s", sentence(passed, at, ends))

    def _used_up_at(self, passed: Passed, at: float) -> float | None:
        """Return when the budget is used up at the recent rate, as reports show it. Blocks."""
        for one in budget_report((passed.budget,), self._store, at).budgets:
            if one.subject == passed.subject:
                return one.used_up_at
        return None

    async def _deliver(self, webhooks: Sequence[Webhook]) -> None:
        """Send what is due: to each webhook in order, while a slow one delays no other."""
        for name in [name for name, one in self._sending.items() if one.done()]:
            self._sending.pop(name).result()
        self.waiting, due = await self._in_thread(partial(self._rows.waiting, self._clock()))
        for one in webhooks:
            if one.name in due and one.name not in self._sending:
                self._sending[one.name] = asyncio.create_task(self._send_all(one))

    async def _send_all(self, webhook: Webhook) -> None:
        with suppress(StoreUnavailable):
            while not self._closing:
                at = self._clock()
                until = at + webhook.timeout_s + CLAIM_S
                claim = partial(self._rows.claim, webhook.name, at, until)
                delivery = await self._in_thread(claim)
                if delivery is None:
                    return
                await self._send(webhook, delivery)

    async def _send(self, webhook: Webhook, delivery: Delivery) -> None:
        try:
            await send(webhook, delivery.alert, delivery.body.encode(), self._clock)
        except WebhookError as exc:
            await self._failed(webhook, delivery, str(exc))
            return
        await self._in_thread(partial(self._rows.finish, delivery, delivered=True))
        self.outcomes[webhook.name, "delivered"] += 1

    async def _failed(self, webhook: Webhook, delivery: Delivery, why: str) -> None:
        at = self._clock()
        if at - delivery.created >= GIVE_UP_S:
            finish = partial(self._rows.finish, delivery, delivered=False, error=why)
            await self._in_thread(finish)
            self.outcomes[webhook.name, "failed"] += 1
            self.outcomes[webhook.name, "given_up"] += 1
            _log.error("alert %s: delivery failed for good: %s", delivery.alert, why)
            return
        wait = min(FIRST_RETRY_S * 2.0 ** min(delivery.attempts, 20), LAST_RETRY_S)
        wait *= random.uniform(1.0, 1.1)
        await self._in_thread(partial(self._rows.retry, delivery, at + wait, why))
        self.outcomes[webhook.name, "failed"] += 1
        if delivery.attempts == 0:
            _log.warning("alert %s: delivery failed, trying again: %s", delivery.alert, why)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def alert_of(passed: Passed, at: float, used_up_at: float | None = None) -> BudgetAlert:
    """Build the alert with the body that webhooks receive.

    at: Unix seconds. used_up_at: as of BudgetStanding.
    """
    budget, period = passed.budget, passed.period
    scale = 1 if budget.usd is None else NANOS
    number = token_hex(16)
    body: Mapping[str, object] = {
        "id": number,
        "type": "budget.threshold_passed",
        "created": _instant(at),
        "budget": budget.name,
        "subject": passed.subject,
        "each": budget.each,
        "threshold": passed.threshold,
        "unit": unit_of(budget),
        "limit": allowed(budget) / scale,
        "spent": passed.spent / scale,
        "period": {
            "per": budget.per,
            "begins": None if period.resets is None else _instant(period.begin),
            "resets": None if period.resets is None else _instant(period.resets),
        },
        "used_up_at": None if used_up_at is None else _instant(used_up_at),
        "text": sentence(passed, at, used_up_at),
    }
    return BudgetAlert(
        id=number,
        budget=budget.name,
        subject=passed.subject,
        begin=period.begin,
        end=period.end,
        threshold=passed.threshold,
        body=msgspec.json.encode(body).decode(),
        created=at,
    )


def sentence(passed: Passed, at: float = 0.0, used_up_at: float | None = None) -> str:
    """Describe the alert for people."""
    budget = passed.budget
    whose = f" of {budget.each} {passed.subject!r}" if budget.each else ""
    limit, spent = allowed(budget), passed.spent
    if budget.usd is None:
        amounts = f"{spent:,} of {limit:,} tokens"
    else:
        digits = 2 if limit >= NANOS else 6
        amounts = f"{spent / NANOS:,.{digits}f} of {limit / NANOS:,.{digits}f} USD"
    resets = passed.period.resets
    until = "" if resets is None else f"; it begins again at {_instant(resets)}"
    passing = f"has passed {100 * passed.threshold:g} %"
    if used_up_at is not None and used_up_at > at:
        until = f"; at the recent rate it is used up at {_instant(used_up_at)}{until}"
    return f"budget {budget.name!r}{whose} {passing}: {amounts} are spent{until}"


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
