"""A burst on one key over several gateways, with everything that may go wrong: the books balance.

Gateways with several workers share limits through Redis and budgets through PostgreSQL. Requests
are streamed and not, fail over, are hedged, and some clients leave. A worker is killed, Redis stops
answering, a configuration is reloaded, and the clock of one gateway is a minute ahead.
STROWGER_BURST is the number of requests of the large run (`make nightly-burst`).
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import psycopg
import pytest
from msgspec import Struct

from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import SILENT_MS
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import Commanded, connected, pid_of
from tests.gateway.fleet.burst.burst_clients import MAX_TOKENS, BurstClients
from tests.gateway.fleet.burst.burst_upstream import PROMPT_TOKENS
from tests.gateway.forked_commands import forked
from tests.stand_ins.ports.reserved import reserved_port
from tests.stand_ins.postgres import Postgres, running_postgres
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

SEATS = 8
LARGE = int(os.environ.get("STROWGER_BURST", "10000"))
KEY = "key-of-the-burst-0000"
MODELS = ("requests", "tokens", "loose", "money", "seats")
INPUT, OUTPUT = 1000, 4000
"""Prices per million tokens, in US dollars: 1 and 4 million 10⁻⁹ US dollars per token."""

MOST = PROMPT_TOKENS + MAX_TOKENS
COST = PROMPT_TOKENS * INPUT * 1000 + MAX_TOKENS * OUTPUT * 1000
"""What one request reserves, in 10⁻⁹ US dollars."""

CONFIG = """
store: {{url: "{store}", redis_url: "{redis}"}}
server: {{drain_delay_s: 0, drain_timeout_s: 10, sse_keepalive_s: {keepalive}}}
auth: {{mode: keys, admin_key: key-of-the-operator, metrics: open, keys: [{{name: burst, key: {key}}}, {{name: other, key: other-key-000000000}}]}}
providers:
  - {{name: one, adapter: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: k}}
  - {{name: two, adapter: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: k}}
prices:
  - {{match: one/*, input: {input}, output: {output}}}
  - {{match: two/*, input: {input}, output: {output}}}
models:
{models}
limits:
  - {{name: requests, who: {{key: burst}}, models: [requests], requests: {requests}, per: day, on_outage: refuse}}
  - {{name: tokens, who: {{key: burst}}, models: [tokens], tokens: {tokens}, per: day, on_outage: refuse}}
  - {{name: loose, who: {{key: burst}}, models: [loose], requests: {requests}, per: day, exact: false, on_outage: refuse}}
  - {{name: seats, who: {{key: burst}}, models: [seats], concurrent: {seats}, on_outage: refuse}}
budgets:
  - {{name: money, who: {{key: burst}}, models: [money], usd: {usd}, per: total}}
  - {{name: all, who: {{any: true}}, usd: 100000, per: total}}
"""  # noqa: E501
MODEL = """  - name: {name}
    hedge_after_s: 0.3
    retry: {{attempts: 4, backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{failure_rate: 1}}
    backends: [{{provider: one, model: "{name}"}}, {{provider: two, model: "{name}"}}]"""


SETTLED_S = 60.0
"""Leases of killed processes expire within 10 seconds; a loaded machine gets more."""


class Size(Struct, frozen=True, kw_only=True):
    """requests: of all models together. outage_s: how long Redis does not answer."""

    requests: int
    gateways: int
    workers: int
    outage_s: float

    @property
    def each(self) -> int:
        """Requests that each model gets."""
        return self.requests // len(MODELS)

    @property
    def allowed(self) -> int:
        """Requests that the limits allow: half of those that are sent."""
        return self.each // 2


SMALL = Size(requests=300, gateways=2, workers=2, outage_s=0)


class Burst(Struct, kw_only=True, eq=False):
    """Everything that runs. journal: of the provider."""

    size: Size
    up: list[Commanded]
    texts: list[str]
    redis: RedisServer
    store: str
    journal: Path
    kills: int = 0

    async def metrics(self, name: str, *labels: str) -> list[float]:
        """A metric of every gateway; 0 where it has no such line."""
        found: list[float] = []
        for one in self.up:
            async with one.client() as client:
                text = (await client.get("/metrics")).text
            lines = [
                line
                for line in text.splitlines()
                if line.startswith(f"{name}{{") or line.startswith(f"{name} ")
            ]
            lines = [line for line in lines if all(label in line for label in labels)]
            found.append(sum(float(line.rpartition(" ")[2]) for line in lines))
        return found

    async def kill_worker(self, gateway: int) -> None:
        async with AsyncExitStack() as stack:
            os.kill(pid_of(await connected(self.up[gateway], stack, 1)), signal.SIGKILL)
        self.kills += 1

    async def break_things(self, clients: BurstClients) -> None:
        """One after the other, at shares of the requests."""
        await _until(lambda: clients.begun > 0.2)
        await self.kill_worker(0)
        if self.size.outage_s:
            await _until(lambda: clients.begun > 0.35)
            self.redis.hang()
            await asyncio.sleep(self.size.outage_s)
            self.redis.go_on()
        await _until(lambda: clients.begun > 0.6)
        last = self.up[-1]
        await last.reload(self.texts[-1].replace("sse_keepalive_s: 15", "sse_keepalive_s: 20"))
        await _until(lambda: clients.begun > 0.75)
        await self.kill_worker(len(self.up) - 1)

    def seen(self, model: str) -> set[str]:
        """Names of the requests that reached the provider."""
        lines = (line.split() for line in self.journal.read_text().splitlines())
        return {name for sign, name, at in lines if sign == "+" and at == model}

    def most_at_once(self, model: str) -> int:
        """The most requests of a model that the provider had at one time; hedges are one."""
        open_: dict[str, int] = {}
        most = 0
        for line in self.journal.read_text().splitlines():
            sign, name, at = line.split()
            if at == model:
                open_[name] = open_.get(name, 0) + (1 if sign == "+" else -1)
                most = max(most, sum(count > 0 for count in open_.values()))
        return most

    def recorded(self, where: str = "TRUE") -> int:
        """The cost of all attempts in the store, in 10⁻⁹ US dollars."""
        sql = f"""SELECT a.cost_usd FROM attempts a JOIN requests r ON r.request_id = a.request_id
            WHERE a.role <> 'mirror' AND a.cost_usd IS NOT NULL AND {where}"""
        with psycopg.connect(self.store) as connection:
            rows = connection.execute(sql.encode()).fetchall()
        return sum(round(cost * 1e9) for (cost,) in rows)

    def summed(self) -> int:
        """The store's own sums, in 10⁻⁹ US dollars."""
        with psycopg.connect(self.store) as connection:
            row = connection.execute("SELECT COALESCE(SUM(nanos), 0) FROM spend").fetchone()
        assert row is not None
        return int(row[0])

    def held(self) -> int:
        """What gateways hold of budgets in the store."""
        with psycopg.connect(self.store) as connection:
            row = connection.execute("SELECT COALESCE(SUM(amount), 0) FROM budget_holds").fetchone()
        assert row is not None
        return int(row[0])

    async def leased(self) -> dict[str, int]:
        """What running processes hold of limits in Redis.

        What a killed one held stays there, as used, until the next request of the same limit.
        """
        found: dict[str, int] = {}
        transport = RedisTransport(Secret(self.redis.url), "burst")
        try:
            keys, time = await transport.run([("KEYS", "strowger:limit:1:*"), ("TIME",)])
            now_ms = int(cast("list[bytes]", time)[0]) * 1000
            for key in cast("list[bytes]", keys):
                (answer,) = await transport.run([("HGETALL", key)])
                fields = cast("dict[bytes, bytes]", answer)
                for field, value in fields.items():
                    holder = field.removeprefix(b"h:")
                    if holder == field or not int(value):
                        continue
                    if now_ms - int(fields[b"t:" + holder]) <= 2 * SILENT_MS:
                        found[f"{key.decode()} {holder.decode()}"] = int(value)
        finally:
            await transport.leave()
        return found


@asynccontextmanager
async def bursting(size: Size, folder: Path) -> AsyncGenerator[Burst, None]:
    async with AsyncExitStack() as stack:
        postgres: Postgres = stack.enter_context(running_postgres())
        store, server = postgres.new_database(), stack.enter_context(running_redis())
        journal, port = folder / "journal", reserved_port()
        words = (sys.executable, "-m", "tests.gateway.fleet.burst.burst_upstream", str(port))
        upstream = await asyncio.create_subprocess_exec(*words, str(journal), "1")
        stack.callback(upstream.kill)
        text = CONFIG.format(
            store=store, redis=server.url, key=KEY, port=port, input=INPUT, output=OUTPUT,
            keepalive=15, models="\n".join(MODEL.format(name=name) for name in MODELS),
            requests=size.allowed, tokens=size.allowed * MOST,
            usd=size.allowed * COST / 1e9, seats=SEATS,
        )  # fmt: skip
        up: list[Commanded] = []
        for number in range(size.gateways):
            file = folder / str(number) / "config.yaml"
            file.parent.mkdir()
            ahead = number == size.gateways - 1
            starting = forked(
                file, text, "--workers", str(size.workers), env=a_minute_ahead() if ahead else {}
            )
            up.append(await stack.enter_async_context(starting))
        yield Burst(
            size=size, up=up, texts=[text] * size.gateways, redis=server, store=store,
            journal=journal,
        )  # fmt: skip


async def burst(size: Size, folder: Path, clients: int, pause_s: float) -> None:
    async with bursting(size, folder) as run:
        sending = BurstClients([one.url for one in run.up], KEY, MODELS, size.requests, seed=7)
        breaking = asyncio.create_task(run.break_things(sending))
        await sending.run(clients, pause_s)
        await breaking
        again = await _send_until_none_is_admitted(run)
        await _settled(run)

        kinds = sending.kinds()
        lost = sum(await run.metrics("strowger_budget_lost_usd_total"))
        spent = await run.metrics("strowger_budget_spent_usd", 'budget="all"')
        money, total = run.recorded("r.model = 'money'"), run.recorded()
        used = sum(one.used for one in sending.sent if one.model == "tokens")
        used += again["tokens"][1]
        loose = size.allowed + (size.gateways * size.workers + run.kills) * (size.allowed // 64)
        for (model, kind), count in sorted(kinds.items()):
            print(f"{model:9} {kind:16} {count:6}")
        print(f"requests  {len(run.seen('requests'))} of {size.allowed}")
        print(f"tokens    {used} of {size.allowed * MOST}")
        print(f"loose     {len(run.seen('loose'))} of {size.allowed}, at most {loose}")
        print(f"seats     {run.most_at_once('seats')} of {SEATS}")
        print(f"money     {money} of {size.allowed * COST}")
        print(f"all money {total}, summed {run.summed()}, spent {spent}, lost {lost:.9f} USD")
        print(f"admitted afterwards: {again}")
        unavailable = [one for one in sending.sent if one.kind == "unavailable"]
        for message, count in Counter(f"{one.model}: {one.message}" for one in unavailable).items():
            print(f"{count} x {message}")

        assert not [kind for _, kind in kinds if kind not in EXPECTED]
        assert len(run.seen("requests")) <= size.allowed
        assert used <= size.allowed * MOST
        assert len(run.seen("loose")) <= loose
        assert money <= size.allowed * COST
        assert run.most_at_once("seats") <= SEATS
        assert run.summed() == total
        assert [round(one * 1e9) for one in spent] == [total] * size.gateways
        async with asyncio.timeout(SETTLED_S):  # a gateway may have read it just before
            while True:
                if await run.metrics("strowger_budget_reserved_usd") == [0] * size.gateways:
                    break
                await asyncio.sleep(0.1)
        # What killed workers had leased counts as used; no more than that is refused.
        held_by_killed = run.kills * (size.allowed // 64 + clients)
        assert len(run.seen("requests")) >= size.allowed - held_by_killed


EXPECTED = {
    "answered",
    "left",
    "lost",
    "limit_exceeded",
    "budget_exceeded",
    "unavailable",
}
"""`lost`: with a killed worker. `unavailable`: while Redis does not answer."""


async def _send_until_none_is_admitted(run: Burst) -> dict[str, tuple[int, int]]:
    """When nothing is in flight, use what is left: requests and tokens, by model."""
    found: dict[str, tuple[int, int]] = {}
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=run.up[0].url, headers=headers, timeout=60) as client:
        for model in ("requests", "tokens", "loose", "money"):
            refused = admitted = used = 0
            while refused < 6:
                await asyncio.sleep(0 if not refused else 0.5)
                text = f"x{model[0]}{admitted:04} {MAX_TOKENS}"
                body = {"model": model, "messages": [{"role": "user", "content": text}]}
                answer = await client.post(
                    "/v1/chat/completions", json={**body, "max_tokens": MAX_TOKENS}
                )
                if answer.status_code == 200:
                    admitted, refused = admitted + 1, 0
                    used += answer.json()["usage"]["total_tokens"]
                else:
                    refused += 1
            found[model] = admitted, used
    return found


async def _settled(run: Burst) -> None:
    """Wait until nothing is reserved, leased or held, and every gateway has read every record."""
    remains: object = None
    try:
        async with asyncio.timeout(SETTLED_S):
            while True:
                reserved = await run.metrics("strowger_budget_reserved_usd")
                spent = await run.metrics("strowger_budget_spent_usd", 'budget="all"')
                unread = [run.recorded() - round(one * 1e9) for one in spent]
                nothing = [0] * run.size.gateways
                remains = reserved, await run.leased(), run.held(), unread
                if remains == (nothing, {}, 0, nothing):
                    return
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(f"reserved, leased, held and unread: {remains}") from None


async def _until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110  nothing reports it
        await asyncio.sleep(0.02)


def a_minute_ahead() -> dict[str, str]:
    """Environment of a gateway whose clock is a minute ahead; its monotonic clock stays.

    Without libfaketime (Debian's package faketime) all clocks are equal.
    """
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        return {}
    return {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME": "+60",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


async def test_a_burst_on_one_key_stays_within_its_limits_and_budgets(tmp_path: Path) -> None:
    await burst(SMALL, tmp_path, clients=16, pause_s=0.02)


@pytest.mark.nightly
async def test_a_large_burst_over_three_gateways_without_redis_for_a_while(tmp_path: Path) -> None:
    size = Size(requests=LARGE, gateways=3, workers=4, outage_s=10)
    await burst(size, tmp_path, clients=48, pause_s=0.1)
