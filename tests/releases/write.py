"""Store what this version writes, for the tests of later ones: `python -m tests.releases.write`.

Run it once per release, after the version in pyproject.toml is set, and never again for an old one.
Until the first release, a change of the tables deletes the folder and writes it again.
"""

import asyncio
import json
import os
import shutil
import sqlite3
import tempfile
import tomllib
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL
from typing import cast

import httpx
import msgspec

from strowger_gateway.gateway.observability.recording.frames import HEAD
from tests.gateway.commanded import SOON_S, Commanded
from tests.releases.stored import (
    CONFIG,
    DATABASE,
    FOLDER,
    SECRETS,
    SPOOL,
    VIEWS,
    Json,
    Secrets,
    bearer,
    copied,
    opened,
    output,
    spool_imported,
    views,
)

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
OF_THE_FILE = "key-of-the-file-1"
TEXT = """\
# What a release stored: it must be readable by every later one.
store:
  url: sqlite:///strowger.sqlite
  spool: spool
  keep_days: 36_500
  keep_usage_days: 36_500
responses: {store: on, keep_days: 36_500}
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{name: of-the-file, key: key-of-the-file-1, team: red, tags: [cost-centre-7]}]
teams: [{name: red}]
server: {drain_delay_s: 0}
providers:
  - {name: a, adapter: openai, base_url: "${PROVIDER}", api_key: k}
models:
  - name: chat
    backends: [{provider: a, model: x}]
  - name: broken
    retry: {attempts: 1}
    backends: [{provider: a, model: bad}]
prices: [{match: a/*, input: 2, output: 8}]
budgets:
  - {name: all-time, who: {team: red}, usd: 1000, per: total}
metrics: [{name: rating, type: number, range: [1, 5]}]
experiments:
  - name: greeting
    model: chat
    assign_by: user
    primary: rating
    variants:
      - {name: control, backend: a/x, weight: 50}
      - {name: other, backend: a/y, weight: 50}
"""
PEOPLE = 20


async def chat(client: httpx.AsyncClient, model: str, user: str, key: str) -> httpx.Response:
    body = {"model": model, "user": user, "messages": [{"role": "user", "content": "Hello!"}]}
    return await client.post("/v1/chat/completions", json=body, headers=bearer(key))


async def traffic(gateway: Commanded) -> Secrets:
    """Leave rows in every table that clients and operators fill."""
    config = gateway.config
    issued = (await output(config, "keys", "create", "ci", "--team", "red", "--user", "u")).strip()
    revoked = (await output(config, "keys", "create", "old")).strip()
    async with gateway.client() as client:
        for key in (issued, revoked):
            await until_known(client, key)
        for number in range(PEOPLE):
            key = issued if number % 2 else OF_THE_FILE
            answer = await chat(client, "chat", f"user-{number}", key)
            vote = {"metric": "rating", "value": 1 + number % 5}
            vote["request_id"] = answer.headers["x-gateway-request-id"]
            voted = await client.post("/v1/feedback", json=vote, headers=bearer(key))
            assert voted.is_success, voted.text
        assert (await chat(client, "broken", "user-1", OF_THE_FILE)).status_code >= 500
        body = {"model": "chat", "input": "Hello!", "user": "user-1"}
        kept = await client.post("/v1/responses", json=body, headers=bearer(OF_THE_FILE))
        assert kept.is_success, kept.text
    await output(config, "keys", "revoke", "old")
    return Secrets(
        of_the_file=OF_THE_FILE, issued=issued, revoked=revoked, response=kept.json()["id"]
    )


async def until_known(client: httpx.AsyncClient, key: str) -> None:
    async with asyncio.timeout(SOON_S):
        while (await client.get("/v1/models", headers=bearer(key))).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def leave_a_spool(gateway: Commanded) -> None:
    """Record requests that the database does not get, because another program has locked it."""
    spool = gateway.config.parent / SPOOL
    with closing(sqlite3.connect(gateway.config.parent / DATABASE)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        async with gateway.client() as client:
            for number in range(3):
                answer = await chat(client, "chat", f"late-{number}", OF_THE_FILE)
                assert answer.is_success, answer.text
        async with asyncio.timeout(SOON_S):
            while sum(file.stat().st_size - len(HEAD) for file in spool.glob("*.rows")) == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(1)  # all three are in the file: it is synced several times per second
        importers = children_of(gateway.process.pid)
        gateway.process.kill()
        await gateway.process.wait()
        for pid in importers:  # else one that waits for the lock imports before it ends
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process, whichever of its threads started them."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for text in texts for child in text.split()]


async def write(release: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "written" / CONFIG
        config.parent.mkdir()
        config.write_text(TEXT)
        async with opened(config) as gateway:
            secrets = await traffic(gateway)
            gateway.process.terminate()
            await gateway.process.wait()
        async with opened(config) as gateway:
            await spool_imported(config)
            await leave_a_spool(gateway)
        with closing(sqlite3.connect(config.parent / DATABASE)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for path in (config.parent / SPOOL).rglob("*"):
            if path.is_file() and path.suffix != ".rows":
                path.unlink()
        config.with_name(SECRETS).write_bytes(msgspec.json.encode(secrets) + b"\n")
        written = datetime.now(UTC).isoformat()
        async with opened(copied(config.parent, Path(folder) / "read")) as gateway:
            await spool_imported(gateway.config)
            read = await views(gateway, secrets)
        # The gateway that reads records its own start, too.
        rows = cast("list[dict[str, Json]]", read["audit"])
        read["audit"] = [row for row in rows if cast(str, row["time"]) < written]
        config.with_name(VIEWS).write_text(json.dumps(read, indent=1) + "\n")
        for path in config.parent.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)  # as a checkout has them
        shutil.copytree(config.parent, release, dirs_exist_ok=True)


def main() -> None:
    version = cast(str, tomllib.loads(PROJECT.read_text())["project"]["version"])
    release = FOLDER / version
    if release.exists():
        raise SystemExit(f"{release} exists: what a release stored does not change")
    asyncio.run(write(release))


if __name__ == "__main__":
    main()
