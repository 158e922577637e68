"""Two gateways on one PostgreSQL serve the same end users at once, each within its own budget."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic, time

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.budgets.lease_leader import BudgetLeaseLeader
from strowger_gateway.gateway.governance.budgets.lease_worker import BudgetLeaseWorker
from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide
from strowger_gateway.gateway.governance.budgets.report import BudgetStanding, budget_report
from strowger_gateway.gateway.governance.budgets.sync import BudgetSync
from strowger_gateway.gateway.governance.end_users.table import hashed
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.limits.scope import Whose
from strowger_gateway.gateway.platform.background import keep_running
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, connected
from tests.gateway.experiments.recorded_gateway import Rows
from tests.gateway.forked_commands import forked
from tests.gateway.governance.budgets.test_budgeted_requests import PRICES
from tests.gateway.governance.limits.test_limited_requests import HELLO
from tests.gateway.serving import serving
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_one_period")]

CONFIG = """
server: {{drain_delay_s: 0}}
store: {{url: "{store}", spool: "{spool}"}}
auth:
  mode: keys
  keys: [{{name: web, key: key-of-web-00000}}, {{name: batch, key: key-of-batch-000}}]
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m-1}}]}}
{prices}
budgets:
  - {{name: people, who: {{any: true}}, each: end_user, usd: 200, per: total}}
"""
ANN = "hi"
"""The text of the requests of the end user who spends his budget."""

COST, RESERVED, BUDGET = 13, 44, 200
"""US dollars per request: what it costs, and what it reserves before."""

ADMITTED = (BUDGET - RESERVED) // COST + 1
"""Requests of an end user until the rest is less than the next one reserves."""


class Pair(Struct, kw_only=True, eq=False):
    """Two gateways. clients: of the first, and of each process of the second."""

    clients: list[httpx.AsyncClient]
    remote: Provider
    store: SqlStore
    config: Config

    async def send(
        self, turn: int, user: str, text: str, key: str = "key-of-web-00000"
    ) -> httpx.Response:
        """text: for the provider, which does not know keys. turn: counts the processes."""
        body = {**HELLO, "messages": [{"role": "user", "content": text}], "user": user}
        return await self.clients[turn % len(self.clients)].post(
            "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}
        )

    def standing(self, user: str) -> BudgetStanding:
        """What the store knows of an end user of the key `web`."""
        whose = Whose(key="web", end_user=hashed(user))
        (found,) = budget_report(self.config.budgets, self.store, time(), whose).budgets
        return found

    async def spent(self, user: str, amount: float) -> BudgetStanding:
        """Wait until the store has the records of so much."""
        async with asyncio.timeout(SOON_S):
            while True:
                found = await asyncio.to_thread(self.standing, user)
                if found.spent >= amount:
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture(params=["apps", pytest.param("processes", marks=pytest.mark.nightly)])
async def pair(
    request: pytest.FixtureRequest, postgres: Postgres, tmp_path: Path
) -> AsyncGenerator[Pair, None]:
    """Two gateways in this process, or `strowger serve` twice, once with two workers."""
    database = postgres.new_database()
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        store = open_store(Secret(database))
        stack.callback(store.close)
        store.prepare()
        texts = [
            CONFIG.format(store=database, spool=tmp_path / name, url=remote.base_url, prices=PRICES)
            for name in ("one", "two")
        ]
        clients: list[httpx.AsyncClient] = []
        if request.param == "apps":
            for place, text in enumerate(texts):
                folder = tmp_path / f"run-{place}"
                folder.mkdir()
                url = await stack.enter_async_context(app(text, folder))
                client = httpx.AsyncClient(base_url=url, timeout=SOON_S)
                clients.append(await stack.enter_async_context(client))
        else:
            files = [tmp_path / name / "config.yaml" for name in ("one", "two")]
            for file in files:
                file.parent.mkdir(exist_ok=True)
            one, two = await asyncio.gather(
                stack.enter_async_context(forked(files[0], texts[0])),
                stack.enter_async_context(forked(files[1], texts[1], "--workers", "2")),
            )
            clients = [
                await connected(up, stack, worker) for up, worker in ((one, 0), (two, 0), (two, 1))
            ]
        config = read_config(texts[0], source="config.yaml", env={})
        yield Pair(clients=clients, remote=remote, store=store, config=config)


@asynccontextmanager
async def app(text: str, folder: Path) -> AsyncGenerator[str, None]:
    """A gateway that records into its store and leases from the budgets there, as a leader does."""
    store = open_store(read_config(text, source="config.yaml", env={}).store.url)
    recorder = Rows(f"file of {folder.name}")

    def equip(gateway: Gateway) -> None:
        gateway.log.recorder = recorder

    async with serving(text, folder, equip=equip) as up:
        leader = BudgetLeaseLeader(up.state.side(KeysSide).rules.budgets, durable=True)
        sync = BudgetSync(leader, store.spend, monotonic)
        leases = BudgetLeaseWorker(
            up.state.side(BudgetsSide).budgets, partial(leader.on_message, 0), up.state.log.flush
        )
        leader.join(0, leases.on_message)

        async def keep_importing() -> None:
            while True:
                await asyncio.sleep(0.05)
                up.state.log.flush()
                rows, recorder.rows = recorder.rows, []
                end = recorder.place + len(rows)
                await asyncio.to_thread(store.import_rows, recorder.file, recorder.place, end, rows)
                recorder.place = end

        await sync.start()
        works = {"reports": leases.report, "import": keep_importing}
        tasks = [
            asyncio.create_task(keep_running(name, work, pytest.fail))
            for name, work in works.items()
        ]
        try:
            yield up.url
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await sync.close()
    store.close()


class Ann:
    """What the provider sees of one end user: it answers once as many are in flight as may be.

    most: that were reserved or spent at the same time, US dollars.
    """

    def __init__(self) -> None:
        self.in_flight = self.answered = self.most = 0
        self._all = asyncio.Event()

    async def answers(self, request: Received, answer: Answer) -> None:
        if f'"{ANN}"'.encode() not in request.body:
            await answer.chat()
            return
        self.in_flight += 1
        self.most = max(self.most, self.in_flight * RESERVED + self.answered * COST)
        if self.in_flight == BUDGET // RESERVED:
            self._all.set()
        await self._all.wait()
        self.in_flight -= 1
        self.answered += 1
        await answer.chat()


async def test_an_end_user_is_held_to_one_budget_by_gateways_that_serve_him_at_once(
    pair: Pair,
) -> None:
    """And neither another end user nor the same name of another key is refused meanwhile."""
    ann = Ann()
    pair.remote.behaviour = ann.answers
    refused = list[httpx.Response]()

    async def keep_sending(turn: int) -> None:
        while ann.answered < ADMITTED:
            answer = await pair.send(turn, "ann", ANN)
            if answer.status_code != 200:
                refused.append(answer)
                await asyncio.sleep(0.05)

    async def others() -> list[int]:
        found = [
            await pair.send(turn, user, "ok", key)
            for turn in range(4)
            for user, key in (("ben", "key-of-web-00000"), ("ann", "key-of-batch-000"))
        ]
        return [one.status_code for one in found]

    async with asyncio.timeout(SOON_S):
        *_, harmless = await asyncio.gather(*(keep_sending(turn) for turn in range(6)), others())
    of_ann = await pair.spent("ann", ADMITTED * COST)
    of_ben = await pair.spent("ben", 4 * COST)
    last = [await pair.send(turn, "ann", ANN) for turn in range(len(pair.clients))]
    after = await pair.send(0, "ben", "ok")

    assert ann.most <= BUDGET
    assert (ann.answered, of_ann.spent) == (ADMITTED, ADMITTED * COST)
    assert of_ben.spent == 4 * COST
    assert harmless == [200] * 8
    assert after.status_code == 200
    for one in (*refused, *last):
        assert one.status_code == 429, one.text
        assert f"'people' of {BUDGET} USD in all" in one.json()["error"]["message"]
