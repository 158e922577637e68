"""What a gateway in front of replicas promises besides their coming and going."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
import trustme

from tests.gateway.backends.discovery.fleet import CHAT, Fleet, asks, health
from tests.gateway.certificates import Issued
from tests.gateway.commanded import SOON_S, Commanded, write
from tests.gateway.forked_commands import forked

pytestmark = pytest.mark.anyio

HOSTS = [f"127.0.0.{last}" for last in range(2, 8)]
CONFIG = """
auth: {admin_key: key-of-the-operator}
server: {drain_delay_s: 0.1}
providers:
  - {name: pool, adapter: openai, base_url: "http://pool.test/v1", api_key: sk-of-the-operator}
  - {name: safe, adapter: openai, base_url: "https://pool.test/v1", api_key: sk-of-the-operator, tls: {ca_file: ca.pem}}
models:
  - name: chat
    policy: prefix_affinity
    backends: [{provider: pool, model: m-1, discover: {file: targets.json, slow_start_s: 0, gauges: off}}]
  - name: safe
    backends: [{provider: safe, model: m-1, discover: {file: safe.json, gauges: off}}]
  - name: empty
    backends: [{provider: pool, model: m-2, discover: {file: empty.json}}]
"""  # noqa: E501
LATE = """  - name: late
    backends: [{provider: pool, model: m-3, discover: {file: late.json, gauges: off}}]
"""


def server_context(issued: Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert, issued.key)
    return context


class Rig:
    """One gateway before replicas, some of which speak TLS."""

    def __init__(self, up: Commanded, folder: Path, fleet: Fleet, safe: Fleet) -> None:
        self.up = up
        self.folder = folder
        self.fleet = fleet
        self.safe = safe


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    folder = tmp_path_factory.mktemp("replicas")
    authority = trustme.CA()
    good, other = (
        server_context(Issued.to(folder, name, authority=authority, stem=name))
        for name in ("pool.test", "other.test")
    )
    async with AsyncExitStack() as stack:
        fleet, safe = Fleet(stack), Fleet(stack)
        for host in HOSTS:
            await fleet.add(host)
        await safe.add("127.0.0.2", good)
        await safe.add("127.0.0.3", other)
        write(folder / "targets.json", fleet.targets(*HOSTS))
        write(folder / "safe.json", safe.targets("127.0.0.2", "127.0.0.3"))
        write(folder / "empty.json", "[]")
        write(folder / "late.json", fleet.targets("127.0.0.2"))
        up = await stack.enter_async_context(forked(folder / "config.yaml", CONFIG))
        yield Rig(up, folder, fleet, safe)


@pytest.fixture
async def client(rig: Rig) -> AsyncGenerator[httpx.AsyncClient, None]:
    async with rig.up.client() as made:
        yield made


async def test_certificates_are_those_of_the_configured_name(
    rig: Rig, client: httpx.AsyncClient
) -> None:
    right, wrong = rig.safe.replicas.values()

    answers = [await client.post(CHAT, json=asks(str(turn), "safe")) for turn in range(8)]

    assert {answer.status_code for answer in answers} == {200}
    assert len(right.requests) == 8
    assert wrong.requests == []
    assert {request.headers["host"] for request in right.requests} == {"pool.test"}


async def test_prompts_with_one_prefix_stay_at_one_replica_until_it_leaves(
    rig: Rig, client: httpx.AsyncClient
) -> None:
    fleet = rig.fleet

    async def places(prompts: range) -> dict[int, str]:
        found: dict[int, str] = {}
        for number in prompts:
            for _ in range(2):
                before = fleet.counts()
                assert (await client.post(CHAT, json=asks(f"prompt {number}"))).is_success
                (host,) = (fleet.counts() - before).keys()
                assert found.setdefault(number, host) == host
        return found

    first = await places(range(12))
    gone = first[0]
    write(rig.folder / "targets.json", fleet.targets(*(host for host in HOSTS if host != gone)))
    async with asyncio.timeout(SOON_S):
        while f"{gone}:{fleet.port}" in await health(client):  # noqa: ASYNC110  another process
            await asyncio.sleep(0.02)
    later = await places(range(12))

    assert len(set(first.values())) > 1
    assert {number for number in first if later[number] != first[number]} == {
        number for number, host in first.items() if host == gone
    }


async def test_a_pool_without_replicas_is_unavailable_and_says_why(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post(CHAT, json=asks(model="empty"))

    assert answer.status_code == 502
    assert "no replica is known" in answer.text
    assert (await client.get("/readyz")).status_code == 200


async def test_a_reload_that_names_a_pool_knows_its_replicas_at_once(
    rig: Rig, client: httpx.AsyncClient
) -> None:
    await rig.up.reload(CONFIG + LATE)

    assert (await client.post(CHAT, json=asks(model="late"))).status_code == 200

    write(rig.folder / "late.json", "[]")
    await rig.up.said("it has no addresses")

    assert (await client.post(CHAT, json=asks(model="late"))).status_code == 200
