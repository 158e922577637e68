"""Engines found by file: `strowger serve` follows it, and no request is lost on the way."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.backends.engines.link.fleets import Certificates, Replica, fleet
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.routing.failures.engine_stand_in import works

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
CONFIG = """
auth: {{admin_key: key-of-the-operator}}
server: {{drain_delay_s: 0, workers: {workers}}}
providers:
  - name: pool
    adapter: local
    engines: {{discover: {{file: engines.json, every_s: 1}}, tls: {tls}}}
models:
  - {{name: chat, policy: least_busy, backends: [{{provider: pool, model: m}}],
      retry: {{attempts: 3, backoff_s: 0.01}}}}
"""


def publish(folder: Path, *engines: Replica) -> None:
    """Replace the file as a whole, in Prometheus's format."""
    draft = folder / "engines.new"
    draft.write_text(json.dumps([{"targets": [one.host for one in engines]}]))
    draft.replace(folder / "engines.json")


class Load:
    """Requests one after the other until `stop`. statuses: of their answers."""

    def __init__(self, up: Commanded) -> None:
        self.statuses: list[int] = []
        self._stopping = False
        self._tasks = [asyncio.create_task(self._ask(up)) for _ in range(4)]

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _ask(self, up: Commanded) -> None:
        async with up.client() as client:
            while not self._stopping:
                got = await client.post("/v1/chat/completions", json=HELLO)
                self.statuses.append(got.status_code)


async def asked_more(engine: Replica) -> None:
    """Wait until the engine gets further requests."""
    before = engine.asked
    await engine.engines.until(lambda: engine.asked >= before + 4, SOON_S)


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.nightly), 2])
async def test_engines_come_and_go_under_load_and_no_request_fails(
    workers: int, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path)
    config = CONFIG.format(workers=workers, tls=certificates.tls())
    async with fleet(certificates, works, works) as (one, other):
        publish(tmp_path, one)
        async with forked(tmp_path / "config.yaml", config) as up:
            load = Load(up)
            await asked_more(one)
            publish(tmp_path, one, other)
            await asked_more(other)
            up.edit("a broken file: [")
            publish(tmp_path, other)
            await up.said(f"removed: {one.host}")
            await asyncio.sleep(1)  # requests that had chosen it
            one.die()
            await asked_more(other)
            await load.stop()

    assert set(load.statuses) == {200}
