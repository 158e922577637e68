"""Issued keys in running gateways: how fast changes arrive, and what stays secret."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.audit.event import Actor
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.authority import (
    KeyAuthority,
    KeyEvent,
    KeyFields,
)
from strowger_gateway.gateway.governance.issued_keys.view import KeyDetails, details
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded, connected, pid_of
from tests.gateway.forked_commands import forked
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "{url}"}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: of-the-file, key: file-key-1}}]}}
teams: [{{name: red}}]
server: {{drain_delay_s: 0}}
providers: [{{name: a, adapter: openai, base_url: "{remote}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: a, model: x}}]}}]
"""
CHAT = "/v1/chat/completions"
OPERATOR = {"authorization": "Bearer key-of-the-operator"}
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
PROMISED_S = 2.0
ALLOWED_S = 10 * PROMISED_S
"""On a busy machine."""


class Rig(Struct, kw_only=True, eq=False):
    """Gateways on one store. workers: a client for each of their serving processes."""

    ups: list[Commanded]
    workers: list[httpx.AsyncClient]
    store: SqlStore
    authority: KeyAuthority
    config: Config

    async def opens(self, secret: str) -> list[bool]:
        """Return whether each process accepts the key.

        Many wrong keys are answered late, and with 429 in place of 401.
        """
        found = await asyncio.gather(*(status(one, secret) for one in self.workers))
        assert set(found) <= {200, 401, 429}
        return [one == 200 for one in found]

    async def refused(self, secret: str) -> float:
        """Wait until no process accepts the key; return the seconds that it took."""
        began = time.monotonic()
        async with asyncio.timeout(SOON_S):
            while any(await self.opens(secret)):  # noqa: ASYNC110  another process decides
                await asyncio.sleep(0.05)
        return time.monotonic() - began

    async def issue(self, name: str) -> str:
        """Issue a key as the command line does, and wait until it is in effect everywhere."""
        made = await asyncio.to_thread(self.authority.create, name, KeyFields(team="red"), TESTER)
        await self.in_effect(name)
        assert all(await self.opens(made.secret))
        return made.secret

    async def in_effect(self, name: str) -> KeyDetails:
        return await self.shown(
            name, lambda one: one.in_effect and len(one.gateways) == len(self.ups)
        )

    async def revoke(self, name: str) -> None:
        await asyncio.to_thread(self.authority.revoke, name, TESTER)

    async def shown(self, name: str, condition: Callable[[KeyDetails], bool]) -> KeyDetails:
        """Wait until `strowger keys show` shows this."""

        def found() -> KeyDetails:
            return details(self.authority.find(name), self.store.issued_keys.readers(), self.config)

        async with asyncio.timeout(SOON_S):
            while not condition(shown := await asyncio.to_thread(found)):  # noqa: ASYNC110  as above
                await asyncio.sleep(0.1)
        return shown


TESTER = Actor(kind="cli", label="a test")


def ignore(event: KeyEvent) -> None:
    """No audit here."""


@asynccontextmanager
async def gateways(url: str, text: str, *files: tuple[Path, int]) -> AsyncGenerator[Rig, None]:
    """Start a gateway for each file, with so many workers."""
    config = read_config(text, source="config.yaml", env={})
    async with AsyncExitStack() as stack:
        store = open_store(Secret(url))
        stack.callback(store.close)
        started = [forked(file, text, "--workers", str(workers)) for file, workers in files]
        ups = await asyncio.gather(*(stack.enter_async_context(one) for one in started))
        yield Rig(
            ups=list(ups),
            workers=[
                await connected(up, stack, number)
                for up, (_, workers) in zip(ups, files, strict=True)
                for number in range(workers)
            ],
            store=store,
            authority=KeyAuthority(store.issued_keys, lambda: config, ignore),
            config=config,
        )


async def stop(up: Commanded) -> None:
    up.process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(up.process.wait(), SOON_S)


def files_with(folder: Path, text: str) -> list[str]:
    """Return the files in a folder that contain a text."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if text.encode() in file.read_bytes()]


async def test_a_revoked_key_is_refused_by_every_worker_and_no_secret_is_on_disk_or_in_a_log(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'strowger.db'}"
    async with provider() as a:
        text = CONFIG.format(url=url, remote=a.base_url)
        file = (tmp_path / "config.yaml", 2)
        async with gateways(url, text, file) as rig:
            kept, leaked = await rig.issue("kept"), await rig.issue("leaked")
            await rig.revoke("leaked")
            took = [await rig.refused(leaked)]
            shown = await rig.in_effect("leaked")
            body = {"name": "by-api", "models": ["chat"]}
            made = await rig.workers[0].post("/admin/keys", json=body, headers=OPERATOR)
            by_api = str(made.json()["secret"])
            await rig.in_effect("by-api")
            opened = await rig.opens(by_api)
            disabled = await rig.workers[1].patch(
                "/admin/keys/by-api", json={"disabled": True}, headers=OPERATOR
            )
            took += [await rig.refused(by_api)]
            enabled = {"disabled": False, "expires": "2999-01-01T00:00:00Z"}
            await rig.workers[0].patch("/admin/keys/by-api", json=enabled, headers=OPERATOR)
            await rig.in_effect("by-api")
            opened += await rig.opens(by_api)
            gone = await rig.workers[0].delete("/admin/keys/by-api", headers=OPERATOR)
            took += [await rig.refused(by_api)]
            await stop(rig.ups[0])
            logs = str([(up.lines, up.access, up.plain) for up in rig.ups])
        async with gateways(url, text, file) as rig:
            restarted = [await rig.opens(one) for one in (kept, leaked, by_api)]
            used = rig.authority.find("kept").last_used
            await stop(rig.ups[0])
            logs += str([(up.lines, up.access, up.plain) for up in rig.ups])

    assert [made.status_code, disabled.status_code, gone.status_code] == [200, 200, 200]
    assert opened == [True] * 4
    assert max(took) < ALLOWED_S
    assert [(one.processes, one.in_effect) for one in shown.gateways] == [(2, True)]
    assert restarted == [[True, True], [False, False], [False, False]]
    assert used is not None
    assert time.time() - used < 60 + SOON_S
    for secret in (kept, leaked, by_api):
        assert files_with(tmp_path, secret) == []
        assert secret not in logs
    assert files_with(tmp_path, kept[-4:])  # what is searched does hold the last four characters


async def test_gateways_share_revocations_and_keep_the_last_list_while_the_store_is_away(
    postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.new_database()
    folders = [tmp_path / name for name in ("one", "two", "late")]
    for folder in folders:
        folder.mkdir()
    files = [folder / "config.yaml" for folder in folders]
    async with (
        provider() as a,
        gateways(
            url, text := CONFIG.format(url=url, remote=a.base_url), (files[0], 2), (files[1], 1)
        ) as rig,
    ):
        kept, leaked = await rig.issue("kept"), await rig.issue("leaked")
        await rig.workers[0].delete("/admin/keys/leaked", headers=OPERATOR)
        took = await rig.refused(leaked)
        shown = await rig.in_effect("leaked")
        await asyncio.to_thread(postgres.stop)
        for up in rig.ups:
            await up.said("continuing with the last known issued keys")
        os.kill(pid_of(rig.workers[1]), signal.SIGKILL)
        async with AsyncExitStack() as stack:
            rig.workers[1] = await connected(rig.ups[0], stack, 1)
            away = [await rig.opens(one) for one in (kept, leaked, "file-key-1")]
            refused = await rig.workers[2].delete("/admin/keys/kept", headers=OPERATOR)
            stale = await metric(rig.workers[0], "strowger_issued_keys_current")
            known = await metric(rig.workers[0], "strowger_issued_keys")
            async with forked(files[2], text) as late, late.client() as client:
                await late.said("serving only the keys of the configuration file")
                without = [await opens(client, one) for one in (kept, leaked, "file-key-1")]
                await asyncio.to_thread(postgres.start)
                await until(partial(opens, client, kept))
                after = [await opens(client, one) for one in (kept, leaked, "file-key-1")]
            for up in rig.ups:
                await up.said("store reachable again; issued keys")
            await rig.revoke("kept")
            again = await rig.refused(kept)

    assert max(took, again) < ALLOWED_S
    assert sorted(one.processes for one in shown.gateways) == [1, 2]
    assert away == [[True] * 3, [False] * 3, [True] * 3]
    assert (refused.status_code, stale, known) == (503, 0.0, 1.0)
    assert without == [False, False, True]
    assert after == [True, False, True]


async def status(client: httpx.AsyncClient, secret: str) -> int:
    headers = {"authorization": f"Bearer {secret}"}
    return (await client.post(CHAT, json=HELLO, headers=headers)).status_code


async def opens(client: httpx.AsyncClient, secret: str) -> bool:
    return await status(client, secret) == 200


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SOON_S):
        while not await condition():  # noqa: ASYNC110  another process decides
            await asyncio.sleep(0.05)


async def metric(client: httpx.AsyncClient, name: str) -> float:
    text = (await client.get("/metrics", headers=OPERATOR)).text
    (found,) = [line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(found)
