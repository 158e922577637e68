"""No request waits for a database that is unreachable before, under and after load."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from msgspec import Struct
from psycopg.sql import SQL, Identifier

from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.storage.sql.rows import request_row
from tests.gateway.storage.sql.used import used
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "{url}"}}
auth: {{admin_key: sk-of-the-operator}}
server: {{drain_delay_s: 0, workers: 2}}
prices: [{{match: "one/*", input: 1, output: 1}}]
providers:
  - {{name: one, adapter: openai, base_url: {remote}, api_key: k}}
models:
  - {{name: chat, backends: [{{provider: one, model: a}}, {{provider: one, model: b}}]}}
experiments:
  - name: trial
    model: chat
    assign_by: user
    primary: thumbs_up
    variants:
      - {{name: control, backend: one/a, weight: 50}}
      - {{name: treatment, backend: one/b, weight: 50}}
    harm_limits: [{{metric: error, worse_by: 0.02}}]
"""
ROOT = Path(__file__).parents[4]
OPERATOR = {"authorization": "Bearer sk-of-the-operator"}
CLIENTS = 4

SICK = [
    request_row(
        f"made-{number}",
        experiment="trial",
        unit=f"made-{number}",
        variant="treatment" if number % 4 else "control",
        status=500 if number % 4 else 200,
    )
    for number in range(2_000)
]
"""Of an experiment that gives three of four units to the treatment, and fails all of them."""


class Rig(Struct, kw_only=True, eq=False):
    """Two workers with a database that is created by the first test that needs it.

    answered: requests. there: whether the database was made.
    """

    postgres: Postgres
    store: SqlStore
    up: Commanded
    client: httpx.AsyncClient
    answered: int = 0
    there: bool = False

    async def arrive(self) -> None:
        """The database is there, and the gateway uses it; it gets a SICK experiment.

        Not before its processes have missed it: one that starts late would find it at once.
        """
        if self.there:
            return
        self.there = True
        await self.up.said("store unreachable", "buffering")
        await self.up.said("store unreachable", "experiment state")
        with psycopg.connect(self.postgres.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE later")
        await self.up.said("buffered records imported")
        await self.up.said("experiment state is up to date")
        self.store.import_rows("made", 0, 1, SICK)

    async def ask(self, user: str) -> httpx.Response:
        body = {"model": "chat", "user": user, "messages": [{"role": "user", "content": "hi"}]}
        answer = await self.client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        self.answered += 1
        return answer

    @asynccontextmanager
    async def loaded(self) -> AsyncGenerator[None, None]:
        """Run CLIENTS clients in the background, each sending one request after the other."""
        enough = asyncio.Event()

        async def one(name: int) -> None:
            while not enough.is_set():
                await self.ask(f"user-{name}")
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as clients:
            for name in range(CLIENTS):
                clients.create_task(one(name))
            try:
                yield
            finally:
                enough.set()

    async def go_on(self) -> None:
        """Wait until so many requests were answered that each client's next one was among them."""
        enough = self.answered + 3 * CLIENTS
        await until(lambda: self.answered >= enough)

    async def report(self) -> httpx.Response:
        return await self.client.get("/admin/experiments/trial", headers=OPERATOR)

    async def metric(self, name: str) -> float:
        """Return a metric of one scrape of any worker."""
        text = (await self.client.get("/metrics", headers=OPERATOR)).text
        (found,) = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found)

    async def all_recorded(self) -> None:
        """Wait until the store has as many requests as were answered; more never come."""
        await until(lambda: self.recorded() >= self.answered)
        assert self.recorded() == self.answered

    def recorded(self) -> int:
        rows = used(self.store)
        assert sum(row.requests for row in rows) == sum(row.attempts for row in rows)
        return sum(row.requests for row in rows)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not happened():  # noqa: ASYNC110  another process's doing
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
async def rig(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Rig, None]:
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        url = postgres.url("later")
        text = CONFIG.format(url=f"{url}&connect_timeout=2", remote=remote.base_url)
        file = tmp_path_factory.mktemp("outages") / "config.yaml"
        up = await stack.enter_async_context(forked(file, text))
        client = await stack.enter_async_context(up.client())
        store = open_store(Secret(url))
        stack.callback(store.close)
        yield Rig(postgres=postgres, store=store, up=up, client=client)


async def test_a_database_that_comes_later_is_used_as_soon_as_it_is_there(rig: Rig) -> None:
    early = [await rig.ask(f"early-{number}") for number in range(6)]
    report = await rig.report()
    away = await rig.metric("strowger_store_available")

    await rig.arrive()
    async with asyncio.timeout(SOON_S):
        while "x-gateway-variant" not in (await rig.ask("late")).headers:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.05)
    await rig.all_recorded()

    assert {answer.headers["x-gateway-backend"] for answer in early} == {"one/a"}
    assert not any("x-gateway-variant" in answer.headers for answer in early)
    assert report.status_code == 503
    assert report.json()["error"]["code"] == "store_unavailable"
    assert 'database "later" does not exist' in report.json()["error"]["message"]
    assert (away, await rig.metric("strowger_store_available")) == (0, 1)
    # A harm limit may have looked at what is SICK already, and its pause is an epoch, too.
    assert (await rig.report()).json()["epoch"] in (1, 2)
    assert sum("store unreachable" in line for line in rig.up.lines) == 2
    assert sum("buffered records imported" in line for line in rig.up.lines) == 1


@pytest.mark.parametrize(
    ("away", "back"),
    [(Postgres.kill, Postgres.start), (Postgres.hang, Postgres.go_on)],
    ids=["killed", "hanging"],
)
async def test_a_database_that_goes_under_load_costs_no_request_and_no_row(
    rig: Rig, away: Callable[[Postgres], None], back: Callable[[Postgres], None]
) -> None:
    """Requests are answered while it is unreachable, before and after that is detected."""
    await rig.arrive()
    since, answered = len(rig.up.lines), rig.answered
    async with rig.loaded():
        await rig.go_on()
        away(rig.postgres)
        try:
            await rig.go_on()
            await rig.up.said("buffering records", since=since)
            await rig.up.said("last known experiment state", since=since)
            await rig.go_on()
            report = await rig.report()
            gone = await rig.metric("strowger_store_available")
            asked = (await rig.ask("voter")).headers["x-gateway-request-id"]
            vote = {"request_id": asked, "metric": "thumbs_up", "value": True}
            feedback = await rig.client.post("/v1/feedback", json=vote)
            async with asyncio.timeout(SOON_S):
                while not await rig.metric("strowger_spool_waiting_bytes"):  # noqa: ASYNC110  as above
                    await asyncio.sleep(0.05)
        finally:
            back(rig.postgres)
    await rig.up.said("buffered records imported", since=since)
    await rig.up.said("experiment state is up to date", since=since)
    await rig.all_recorded()

    lines = rig.up.lines[since:]
    assert await rig.metric("strowger_records_lost_total") == 0
    assert await rig.metric("strowger_records_imported_total") >= 2 * (rig.answered - answered)
    assert (report.status_code, report.json()["error"]["code"]) == (503, "store_unavailable")
    assert feedback.status_code == 202
    assert (gone, await rig.metric("strowger_store_available")) == (0, 1)
    messages = (
        "buffering records",
        "last known experiment state",
        "buffered records imported",
        "experiment state is up to date",
    )
    for once in messages:
        assert sum(once in line for line in lines) == 1, lines


async def test_what_is_wrong_with_an_experiment_is_in_the_scrape_and_paused_once(
    rig: Rig,
) -> None:
    await rig.arrive()
    await rig.up.said("SAMPLE RATIO MISMATCH")
    await rig.up.said("trial is PAUSED")

    assert await rig.metric('strowger_experiment_split_mismatch{experiment="trial"}') == 1
    assert await rig.metric('strowger_experiment_harm_limit_pauses_total{experiment="trial"}') == 1
    assert sum("trial is PAUSED" in line for line in rig.up.lines) == 1


async def test_a_gateway_whose_database_hangs_still_exits_on_sigterm(rig: Rig) -> None:
    """While it hangs, not when it goes on."""
    await rig.arrive()
    rig.postgres.hang()
    try:
        await rig.ask("unheard")
        rig.up.process.terminate()
        await asyncio.wait_for(rig.up.process.wait(), SOON_S)
    finally:
        rig.postgres.go_on()

    assert rig.up.process.returncode == 0


def test_a_database_that_only_reads_is_named(postgres: Postgres) -> None:
    """As a standby does, or `default_transaction_read_only`."""
    url = postgres.empty_database()
    store = open_store(Secret(url))
    store.ping()
    with psycopg.connect(url, autocommit=True) as operator:
        (name,) = operator.execute("SELECT current_database()").fetchall()[0]
        setting = SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        operator.execute(setting.format(Identifier(name), "on"))
        store.close_idle()
        store.probe_writes()
        try:
            with pytest.raises(StoreUnavailable) as caught:
                store.ping()
            read = [store.pauses() for _ in range(2)]
        finally:
            operator.execute(setting.format(Identifier(name), "off"))
    store.ping()
    store.close()

    assert caught.value.fault == "read_only"
    assert read == [{}, {}], "what is there can be read"
