"""What one worker learns of a key, the others know, and so does one that starts later."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import OPERATOR, SOON_S, Commanded, connected
from tests.gateway.forked_commands import forked
from tests.gateway.governance.provider_keys.quotas import Account, QuotaVendor
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
store: {{url: "sqlite:///{folder}/store.db", spool: {folder}/spool}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: key-of-ada}}]}}
server: {{drain_delay_s: 0}}
providers:
  - name: p
    adapter: openai
    base_url: "{url}"
    api_keys: [{{key: secret-a, name: red}}, {{key: secret-b, name: blue}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
"""
Setting = tuple[Commanded, QuotaVendor, list[httpx.AsyncClient]]


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting]:
    vendor = QuotaVendor({"secret-a": Account(left=0, retry_after="600"), "secret-b": Account()})
    async with provider(vendor) as remote, AsyncExitStack() as stack:
        text = CONFIG.format(folder=tmp_path, url=remote.base_url)
        up = await stack.enter_async_context(
            forked(tmp_path / "config.yaml", text, "--workers", "2")
        )
        workers = [await connected(up, stack, worker) for worker in (0, 1)]
        yield up, vendor, workers


async def ask(client: httpx.AsyncClient, text: str) -> int:
    body = {"model": "chat", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": "Bearer key-of-ada"}
    return (await client.post("/v1/chat/completions", json=body, headers=headers)).status_code


async def test_a_rest_is_known_to_all_workers_and_recorded_by_name(setting: Setting) -> None:
    up, vendor, workers = setting
    place = 0
    while vendor.asked.count("secret-a") < 1:
        assert await ask(workers[0], str(place)) == 200
        place += 1
    async with asyncio.timeout(SOON_S):
        while True:
            found = await workers[1].get("/admin/provider-keys", headers=OPERATOR)
            states = {one["name"]: one["state"] for one in found.json()["keys"]}
            if states["red"] == "rate-limited":
                break
            await asyncio.sleep(0.02)
    after = [await ask(worker, f"later {place}") for worker in workers for place in range(8)]
    page = (await workers[1].get("/admin/view/provider-keys", headers=OPERATOR)).text
    stored: list[str] = []
    async with asyncio.timeout(SOON_S):
        while not stored:
            recorded = await workers[0].get(
                "/admin/requests", params={"before": 4e9}, headers=OPERATOR
            )
            rows = recorded.json()["requests"]
            stored = [one["attempts"][0]["provider_key"] for one in rows]
            await asyncio.sleep(0.1)

    assert after == [200] * 16
    assert Counter(vendor.asked)["secret-a"] == 1
    assert states == {"red": "rate-limited", "blue": "in use"}
    assert "rate-limited for 6" in page or "rate-limited for 5" in page
    assert "secret-" not in page + "".join(up.lines) + str(up.access)
    assert set(stored) == {"blue"}


async def states(client: httpx.AsyncClient, **wanted: str) -> None:
    """Wait until these keys have these states in the client's process."""
    async with asyncio.timeout(SOON_S):
        while True:
            found = await client.get("/admin/provider-keys", headers=OPERATOR)
            if {one["name"]: one["state"] for one in found.json()["keys"]} == wanted:
                return
            await asyncio.sleep(0.02)


async def asked(client: httpx.AsyncClient, vendor: QuotaVendor, secret: str) -> None:
    """Send requests until the vendor has got one with this key; all are answered."""
    before = vendor.asked.count(secret)
    async with asyncio.timeout(SOON_S):
        place = 0
        while vendor.asked.count(secret) == before:
            assert await ask(client, f"{secret} {place}") == 200
            place += 1


async def test_a_refusal_ends_for_all_when_the_account_works_again_or_its_key_is_replaced(
    setting: Setting,
) -> None:
    up, vendor, workers = setting
    text = up.config.read_text()
    red, blue = vendor.accounts["secret-a"], vendor.accounts["secret-b"]
    red.left, red.revoked = 1_000, True
    vendor.accounts["secret-new"] = Account()
    await asked(workers[0], vendor, "secret-a")
    for worker in workers:
        await states(worker, red="refused", blue="in use")

    red.revoked, blue.revoked = False, True
    assert await ask(workers[1], "the last key is refused, too") == 424
    assert await ask(workers[1], "the one that has rested longest is tried") == 200
    for worker in workers:
        await states(worker, red="in use", blue="refused")
    await up.reload(text.replace("name: chat,", "name: talk, aliases: [chat],"))
    for worker in workers:
        await states(worker, red="in use", blue="refused")

    await up.reload(text.replace("secret-b", "secret-new"))
    for worker in workers:
        await states(worker, red="in use", blue="in use")
        await asked(worker, vendor, "secret-new")
