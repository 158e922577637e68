"""The audit log of running gateways: one chain over all of them, without a secret or a gap."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from strowger_gateway.gateway.audit.chain import AuditRow, ChainHead
from strowger_gateway.gateway.audit.verification import ChainCheck
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.stand_ins.postgres import Postgres

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "{url}", spool: {spool}}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: {key}}}]}}
audit: {{file: {spool}.jsonl}}
server: {{drain_delay_s: 0, trusted_proxies: [127.0.0.1]}}
providers: [{{name: a, adapter: openai, base_url: "http://127.0.0.1:9", api_key: {provider}}}]
models: [{{name: chat, backends: [{{provider: a, model: x}}]}}]
limits: [{{name: most, who: {{key: ada}}, requests: {requests}, per: minute}}]
"""
OPERATOR = {"authorization": "Bearer key-of-the-operator", "x-forwarded-for": "203.0.113.7"}
WRONG = {"authorization": "Bearer wrong-key-of-nobody", "x-forwarded-for": "198.51.100.9"}
SECRETS = ["key-of-the-operator", "ada-secret-1", "ada-secret-2", "sk-provider-1", "sk-provider-2"]


def config(folder: Path, url: str, name: str = "one", version: int = 1, requests: int = 60) -> str:
    return CONFIG.format(
        url=url,
        spool=folder / name,
        key=f"ada-secret-{version}",
        provider=f"sk-provider-{version}",
        requests=requests,
    )


def rows_of(url: str) -> list[AuditRow]:
    """Return the rows after checking that their chain is whole. Blocks."""
    store = open_existing(Secret(url))
    check, rows = ChainCheck(), list[AuditRow]()
    try:
        for one in store.audit.chain():
            if isinstance(one, ChainHead):
                check.finish(one)
            else:
                check.add(one)
                rows.append(one)
    finally:
        store.close()
    assert check.problems == []
    return rows


async def eventually(url: str, condition: Callable[[list[AuditRow]], bool]) -> list[AuditRow]:
    """Wait until the rows are like this."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                rows = await asyncio.to_thread(rows_of, url)
            except StoreUnavailable:
                rows = []
            if condition(rows):
                return rows
            await asyncio.sleep(0.1)


def has(action: str, outcome: str = "done") -> Callable[[list[AuditRow]], bool]:
    return lambda rows: any((row.action, row.outcome) == (action, outcome) for row in rows)


async def stop(up: Commanded) -> None:
    up.process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(up.process.wait(), SOON_S)


@asynccontextmanager
async def gateways(*started: tuple[Path, str, int]) -> AsyncGenerator[Sequence[Commanded]]:
    """Start one for each file, text and number of workers."""
    async with AsyncExitStack() as stack:
        ups = (forked(file, text, "--workers", str(workers)) for file, text, workers in started)
        yield await asyncio.gather(*(stack.enter_async_context(up) for up in ups))


async def issue(client: httpx.AsyncClient, name: str) -> str:
    answer = await client.post("/admin/keys", json={"name": name}, headers=OPERATOR)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["secret"])


async def test_the_life_of_a_gateway_is_recorded_without_a_secret(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    file = tmp_path / "config.yaml"
    text = config(tmp_path, url)
    async with gateways((file, text, 2)) as (up,), up.client() as client:
        issued = [await issue(client, "ci")]
        rotated = await client.post("/admin/keys/ci/rotate", headers=OPERATOR)
        issued.append(rotated.json()["secret"])
        pasted = await client.delete(f"/admin/keys/{issued[0]}", headers=OPERATOR)
        wrong = [await client.get("/admin/keys", headers=WRONG) for _ in range(8)]
        form = {"key": "key-of-the-operator"}
        entered = await client.post("/admin/sign-in", data=form, headers={"sec-fetch-site": "none"})
        mistaken = await client.post("/admin/sign-in", data={"key": "mistyped-secret-key"})
        left = await client.post("/admin/sign-out", headers={"sec-fetch-site": "same-origin"})
        await up.reload(config(tmp_path, url, version=2, requests=90))
        since = len(up.lines)
        up.edit(text.replace("requests: 60", "reqests: sk-provider-1"))
        await up.said("rejected", since=since)
        await stop(up)
        log = "\n".join((*up.lines, *map(str, up.access)))
    rows = rows_of(url)
    by_action = {(row.action, row.outcome): row for row in rows}
    reload = by_action["config.reload", "done"]
    refused = [row for row in rows if row.action == "admin.access" and row.actor_kind == "unknown"]
    copy = (tmp_path / "one.jsonl").read_text()

    assert [entered.status_code, left.status_code, mistaken.status_code] == [303, 303, 401]
    assert pasted.status_code == 404
    assert {one.status_code for one in wrong} <= {401, 429}
    assert set(by_action) >= {
        ("gateway.start", "done"),
        ("key.create", "done"),
        ("key.rotate", "done"),
        ("session.sign_in", "done"),
        ("session.sign_in", "refused"),
        ("session.sign_out", "done"),
        ("config.reload", "refused"),
        ("gateway.stop", "done"),
    }
    assert rows[-1].action in ("gateway.stop", "admin.access", "session.sign_in")
    assert by_action["key.create", "done"].address == "203.0.113.7"
    assert by_action["key.create", "done"].actor_kind == "admin_key"
    assert by_action["session.sign_out", "done"].session
    assert "reqests" in by_action["config.reload", "refused"].reason
    assert sum(row.count for row in refused) == 8
    assert {row.address for row in refused} == {"198.51.100.9"}
    assert '{"field":"limits[most].requests","old":"60","new":"90"}' in reload.detail
    assert '{"field":"providers[a].api_key","old":"***","new":"***"}' in reload.detail
    assert '{"field":"auth.keys[ada].key","old":"***","new":"***"}' in reload.detail
    assert [json.loads(line)["hash"] for line in copy.splitlines()] == [row.hash for row in rows]
    recorded = "".join((str(rows), copy, (tmp_path / "store.db").read_bytes().decode("latin-1")))
    for secret in (*SECRETS, *issued, "mistyped-secret-key", "wrong-key-of-nobody"):
        assert secret not in recorded
    assert "audit log: row " in log


async def test_gateways_and_commands_append_to_one_chain(
    postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.new_database()
    texts = [config(tmp_path, url, name) for name in ("one", "two")]
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    keys = 12
    async with gateways((files[0], texts[0], 2), (files[1], texts[1], 1)) as ups:
        async with ups[0].client() as one, ups[1].client() as other:
            made = [
                issue(client, f"k{number}-{place}")
                for number in range(keys)
                for place, client in enumerate((one, other))
            ]
            tried = [client.get("/admin/keys", headers=WRONG) for client in (one, other)]
            create = ("keys", "create", "cli", "--config", str(files[0]))
            commanded_key = asyncio.create_task(asyncio.to_thread(run, *create))
            await asyncio.gather(*made, *tried)
            by_hand = await commanded_key
        await asyncio.gather(*map(stop, ups))
    rows = rows_of(url)
    targets = sorted(row.target for row in rows if row.action == "key.create")
    verified = [
        run(
            *("audit", "--verify", "--file", str(tmp_path / f"{name}.jsonl")),
            *("--head", rows[-1].hash, "--config", str(file)),
        )
        for name, file in zip(("one", "two"), files, strict=True)
    ]

    assert by_hand.exit_code == 0
    assert targets == sorted(["cli", *(f"k{n}-{p}" for n in range(keys) for p in (0, 1))])
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert sum(row.action == "gateway.start" for row in rows) == 2
    assert sum(row.action == "gateway.stop" for row in rows) == 2
    assert all(one.exit_code == 0 for one in verified), verified[0].output
    assert (
        f"{len(rows):,} rows, 1 to {len(rows)}: none was changed or removed" in verified[0].output
    )


async def test_what_was_recorded_before_a_kill_is_appended_after_the_next_start(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    file, text = tmp_path / "config.yaml", config(tmp_path, url)
    async with gateways((file, text, 1)) as (up,), up.client() as client:
        await eventually(url, has("gateway.start"))
        await issue(client, "ci")
        await client.get("/admin/keys", headers=WRONG)
        spool = tmp_path / "one" / "audit"
        async with asyncio.timeout(SOON_S):
            while not any(b"admin.access" in one.read_bytes() for one in spool.glob("*.rows")):
                if has("admin.access", "refused")(await asyncio.to_thread(rows_of, url)):
                    break
                await asyncio.sleep(0.01)
        up.process.kill()
        await up.process.wait()
    async with gateways((file, text, 1)) as (up,):
        await eventually(url, lambda rows: sum(r.action == "gateway.start" for r in rows) == 2)
        await stop(up)
    rows = rows_of(url)
    actions = [row.action for row in rows]
    copied = [json.loads(line)["seq"] for line in (tmp_path / "one.jsonl").read_text().splitlines()]

    assert sorted(actions) == [
        *("admin.access", "gateway.start", "gateway.start", "gateway.stop", "key.create")
    ]
    assert len({row.id for row in rows}) == len(rows)
    assert copied == [row.seq for row in rows]


async def test_rows_may_be_kept_for_longer_than_there_are_years(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    text = config(tmp_path, url).replace("audit: {", "audit: {keep_days: 999999, ")
    for name in ("keep_days", "keep_usage_days", "keep_payload_days"):
        text = text.replace("store: {", f"store: {{{name}: {10**15}, ")
    async with gateways((tmp_path / "config.yaml", text, 1)) as (up,):
        await eventually(url, has("gateway.start"))
        await stop(up)

    assert [line for line in up.lines if "unreachable" in line or "internal error" in line] == []


async def test_events_wait_while_the_store_is_away_and_across_a_stop(
    postgres: Postgres, tmp_path: Path
) -> None:
    """The database is created later, as after an outage at the start."""
    url = postgres.url("audit_later")
    file, text = tmp_path / "config.yaml", config(tmp_path, url)
    async with gateways((file, text, 1)) as (up,), up.client() as client:
        refused = await client.post("/admin/keys", json={"name": "ci"}, headers=OPERATOR)
        await up.reload(text.replace("requests: 60", "requests: 61"))
        metrics = (await client.get("/metrics", headers=OPERATOR)).text
        await stop(up)
    waiting = list((tmp_path / "one" / "audit").glob("*.rows"))
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE audit_later")
    async with gateways((file, text, 1)) as (up,):
        rows = await eventually(url, lambda rows: len(rows) >= 5)
        await stop(up)

    assert refused.status_code == 503
    assert waiting
    assert "strowger_audit_events_lost_total 0.0" in metrics
    assert {(row.action, row.outcome) for row in rows} >= {
        ("gateway.start", "done"),
        ("admin.access", "failed"),
        ("config.reload", "done"),
        ("gateway.stop", "done"),
    }
