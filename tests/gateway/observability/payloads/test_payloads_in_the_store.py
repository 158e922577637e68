"""Bodies of requests and answers in the store: bounded, redacted, read by admins, and deleted."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.observability.payloads.part import PayloadsSide
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.payload_rows import (
    DAY_S,
    OVERHEAD,
    PayloadQuery,
    StoredPayload,
)
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run, table
from tests.gateway.commanded import connected
from tests.gateway.forked_commands import forked
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

AUTH = """
teams: [{name: red}]
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{name: ada, key: key-of-ada-1, team: red}, {name: ben, key: key-of-ben-1}]
"""
OPERATOR = {"authorization": "Bearer key-of-the-operator"}
NOON = 20_000.5 * DAY_S
WIDE = 1 << 40


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Secret:
    if request.param == "sqlite":
        return Secret(f"sqlite:///{tmp_path / 'store.db'}")
    server: Postgres = request.getfixturevalue("postgres")
    return Secret(server.empty_database())


@pytest.fixture
def store(url: Secret) -> Generator[SqlStore]:
    found = open_store(url)
    yield found
    found.close()


def row(name: str, key: str = "ada", size: int = 100, at: float = NOON) -> StoredPayload:
    return StoredPayload(
        request_id=name,
        time=at,
        key=key,
        team="",
        model="chat",
        status=200,
        error="",
        size=size,
        record="{}",
    )


class Equipped(Struct, kw_only=True, eq=False):
    """A gateway with a store, and a client of it."""

    gateway: Serving
    store: SqlStore
    client: httpx.AsyncClient

    async def ask(self, text: str, key: str = "key-of-ada-1", *, stream: bool = False) -> str:
        """Return the id of the request, when its payload is stored or dropped."""
        body = {"model": "chat", "stream": stream, "messages": [{"role": "user", "content": text}]}
        headers = {"authorization": f"Bearer {key}"}
        answer = await self.client.post("/v1/chat/completions", json=body, headers=headers)
        await self.gateway.state.side(PayloadsSide).close(20)
        return answer.headers["x-gateway-request-id"]

    async def read(self, id: str, headers: dict[str, str] = OPERATOR) -> httpx.Response:
        return await self.client.get(f"/admin/payloads/{id}", headers=headers)

    def counted(self, outcome: str) -> float | None:
        registry = self.gateway.state.log.metrics.registry
        return registry.get_sample_value("strowger_payloads_total", {"outcome": outcome})


@asynccontextmanager
async def equipped(
    folder: Path, url: Secret, payloads: str, settings: str = ""
) -> AsyncGenerator[Equipped]:
    store = open_store(url)
    recorder = FileRecorder(Spool(folder / "spool"))

    def equip(state: Gateway) -> None:
        state.side(PayloadsSide).rows = store.payloads
        state.store = StoreAccess(store)
        state.side(ExperimentsSide).service = ExperimentService(
            state.store, recorder, state.runtime.routing.experiments, lambda: ()
        )

    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        stack.callback(recorder.close)
        backend = await stack.enter_async_context(provider())
        more = f"{AUTH}\nlogging: {{payloads: {{to: store, {payloads}}}}}\n{settings}"
        config = one_model(backend.base_url, more)
        up = await stack.enter_async_context(serving(config, folder, equip=equip))
        client = httpx.AsyncClient(base_url=up.url, timeout=60)
        await stack.enter_async_context(client)
        yield Equipped(gateway=up, store=store, client=client)


async def test_a_payload_is_redacted_stored_read_and_removed(tmp_path: Path, url: Secret) -> None:
    rules = "mode: all, redact: [{pattern: 'sk-[a-z]+', replacement: KEY}]"
    async with equipped(tmp_path, url, rules) as up:
        id = await up.ask("my sk-secret \x00", stream=True)
        found = await up.read(id)
        query = {"key": "ada", "model": "chat"}
        listed = await up.client.get("/admin/payloads", params=query, headers=OPERATOR)
        others = await up.client.get("/admin/payloads", params={"key": "ben"}, headers=OPERATOR)
        removed = await up.client.delete(f"/admin/payloads/{id}", headers=OPERATOR)
        gone = await up.read(id)

    record = found.json()
    assert record["request"]["messages"][0]["content"] == "my KEY \x00"
    assert record["response"]["choices"][0]["delta"]["content"] == "hello"
    assert found.headers["cache-control"] == "no-store"
    (entry,) = listed.json()["payloads"]
    assert (entry["request_id"], entry["key"], entry["team"]) == (id, "ada", "red")
    assert "record" not in entry
    assert others.json()["payloads"] == []
    assert removed.json() == entry
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown_request")


async def test_only_admins_read_payloads(tmp_path: Path) -> None:
    url = Secret(f"sqlite:///{tmp_path / 'store.db'}")
    async with equipped(tmp_path, url, "mode: all") as up:
        id = await up.ask("hi")
        client = await up.read(id, {"authorization": "Bearer key-of-ada-1"})
        nobody = await up.read(id, {})

    assert (client.status_code, nobody.status_code) == (401, 401)


async def test_a_key_that_has_used_up_its_day_leaves_room_for_others(tmp_path: Path) -> None:
    url = Secret(f"sqlite:///{tmp_path / 'store.db'}")
    bounds = "mode: all, max_bytes: 65536, max_key_day_bytes: 65536"
    async with equipped(tmp_path, url, bounds) as up:
        first = await up.ask("x" * 50_000)
        second = await up.ask("x" * 50_000)
        other = await up.ask("x" * 50_000, "key-of-ben-1")
        statuses = [(await up.read(one)).status_code for one in (first, second, other)]

        assert statuses == [200, 404, 200]
        assert (up.counted("written"), up.counted("dropped")) == (2, 1)


async def test_payloads_leave_the_rest_of_the_disk_to_keys_and_records(tmp_path: Path) -> None:
    url = Secret(f"sqlite:///{tmp_path / 'store.db'}")
    spare = f"store: {{min_free_bytes: {1 << 60}}}"
    async with equipped(tmp_path, url, "mode: all", spare) as up:
        status = (await up.read(await up.ask("hi"))).status_code

        assert status == 404
        assert (up.counted("written"), up.counted("dropped")) == (0, 1)
        assert up.store.claim("anything else", 1.0, 1.0)


async def test_a_store_that_is_away_fails_no_request(tmp_path: Path) -> None:
    missing = Secret(f"sqlite:///{tmp_path / 'not' / 'there' / 'store.db'}")
    async with equipped(tmp_path, missing, "mode: all") as up:
        assert await up.ask("hi")
        assert (up.counted("written"), up.counted("failed")) == (0, 1)


async def test_no_bound_is_exceeded_by_additions_at_the_same_time(store: SqlStore) -> None:
    each = 100 + OVERHEAD

    def add(number: int) -> list[str]:
        rows = [row(f"{number}-{one}", key=f"k{one % 3}") for one in range(4)]
        return [
            str(one)
            for one in store.payloads.add(rows, NOON, most=20 * each, most_of_key=12 * each)
        ]

    with ThreadPoolExecutor(4) as threads:
        reasons = [one for found in threads.map(add, range(12)) for one in found]

    kept = store.payloads.page(PayloadQuery(limit=100))
    assert len(kept) == reasons.count("") == 20
    assert max(sum(one.key == f"k{n}" for one in kept) for n in range(3)) <= 12
    assert store.payloads.add([row("next")], NOON + DAY_S, most=each, most_of_key=each) == [""]


async def test_payloads_are_deleted_when_they_are_too_old(store: SqlStore) -> None:
    rows = [row("old", at=NOON - 3 * DAY_S), row("new")]
    store.payloads.add(rows, NOON, most=WIDE, most_of_key=WIDE)
    again = replace(rows[1], record="other")
    assert store.payloads.add([again], NOON, most=WIDE, most_of_key=WIDE) == [""]

    store.prune(0.0, NOON, payloads_before=NOON - DAY_S)

    assert [one.request_id for one in store.payloads.page(PayloadQuery())] == ["new"]
    kept = store.payloads.find("new")
    assert kept is not None
    assert kept.record == "{}", "the first one with this id stays"


async def test_the_page_links_to_payloads_that_are_stored(tmp_path: Path) -> None:
    url = Secret(f"sqlite:///{tmp_path / 'store.db'}")
    async with equipped(tmp_path, url, "mode: all") as up:
        id = await up.ask("hi")
        page = await up.client.get("/admin/live", headers=OPERATOR)

    assert f'href="/admin/view/requests/{id}"' in page.text


async def test_commands_list_read_and_remove_payloads(tmp_path: Path) -> None:
    store = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    store.payloads.add([row("one"), row("two", key="ben")], NOON, most=WIDE, most_of_key=WIDE)
    store.close()
    config = tmp_path / "config.yaml"
    config.write_text(one_model("http://127.0.0.1:9/v1", "store: {url: sqlite:///store.db}"))
    file = ("--config", str(config))

    listed = run("records", "payloads", "--key", "ben", *file)
    read = run("records", "payload", "one", *file)
    removed = run("records", "payload", "one", "--remove", *file)
    missing = run("records", "payload", "one", *file)
    audit = run("audit", "--action", "payload", "--json", *file)

    assert [cells[1] for cells in table(listed.output, "TIME")] == ["two"]
    assert (read.exit_code, read.output) == (0, "{}\n")
    assert (removed.exit_code, removed.output) == (0, "")
    assert missing.exit_code == 1
    assert "no payload of request 'one'" in missing.output
    found = [json.loads(line) for line in audit.output.splitlines()]
    assert [(one["action"], one["target"]) for one in found] == [
        ("payload.read", "one"),
        ("payload.remove", "one"),
    ]


@pytest.mark.nightly
async def test_workers_store_what_the_command_line_reads(
    tmp_path: Path, postgres: Postgres
) -> None:
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(provider())
        more = f"""
server: {{workers: 2, drain_delay_s: 0}}
store: {{url: "{postgres.new_database()}", spool: "{tmp_path / "spool"}"}}
logging: {{payloads: {{mode: all, to: store}}}}
guardrails: [{{name: words, use: patterns, mode: mask, settings: {{words: [falcon]}}}}]
{AUTH}
"""
        config = one_model(backend.base_url, more)
        up = await stack.enter_async_context(forked(tmp_path / "config.yaml", config))
        ids: list[str] = []
        async with AsyncExitStack() as clients:
            for worker, word in ((0, "falcon"), (1, "robin")):
                client = await connected(up, clients, worker)
                body = {"model": "chat", "messages": [{"role": "user", "content": word}]}
                headers = {"authorization": "Bearer key-of-ada-1"}
                answer = await client.post("/v1/chat/completions", json=body, headers=headers)
                ids.append(answer.headers["x-gateway-request-id"])
        async with httpx.AsyncClient(base_url=up.url, headers=OPERATOR, timeout=60) as admin:
            async with asyncio.timeout(60):
                while True:
                    read = await admin.get(f"/admin/payloads/{ids[1]}")
                    if read.status_code == 200:
                        break
                    await asyncio.sleep(0.05)
        up.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(up.process.wait(), 120) == 0

    file = ("--config", str(tmp_path / "config.yaml"))
    listed = run("records", "payloads", *file)
    masked = run("records", "payload", ids[0], *file)
    removed = run("records", "payload", ids[1], "--remove", *file)
    missing = run("records", "payload", ids[1], *file)
    audit = run("audit", "--action", "payload", "--json", *file)

    assert read.json()["request"]["messages"][0]["content"] == "robin"
    assert {one[1] for one in table(listed.output, "TIME")} == set(ids)
    assert json.loads(masked.output)["omitted"] == ["request"]
    assert "falcon" not in masked.output
    assert (removed.exit_code, removed.output) == (0, "")
    assert missing.exit_code == 1
    rows = [json.loads(line) for line in audit.output.splitlines()]
    assert [(one["action"], one["target"], one["actor_kind"]) for one in rows] == [
        ("payload.read", ids[1], "admin_key"),
        ("payload.read", ids[0], "cli"),
        ("payload.remove", ids[1], "cli"),
    ]
