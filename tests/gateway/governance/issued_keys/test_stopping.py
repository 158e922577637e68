"""The list of issued keys stops with its gateway, whatever happens in that moment."""

import asyncio
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.governance.issued_keys.messages import KeysChanged
from strowger_gateway.gateway.governance.issued_keys.sync import KeySync
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret

pytestmark = pytest.mark.anyio

CONFIG = """
auth: {mode: keys, keys: [{name: of-the-file, key: file-key-1}]}
providers: [{name: a, adapter: openai, api_key: k}]
models: [{name: chat, backends: [{provider: a, model: x}]}]
"""


async def test_a_change_in_the_moment_of_the_stop_holds_nothing_up(tmp_path: Path) -> None:
    config = read_config(CONFIG, source="config.yaml", env={})
    store = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    keys = KeySync(store.issued_keys, lambda: config, poll_s=600)
    await keys.start()
    while not keys.read_at:  # noqa: ASYNC110  polled
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)  # it waits for a change now

    keys.on_message(0, KeysChanged())
    async with asyncio.timeout(10):
        await keys.close()
    store.close()
