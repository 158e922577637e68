"""Experiments with several workers: ramps by editing the file, pauses, and recording."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import cycle, pairwise
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.storage.sql.base import Epoch
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded, connected, pid_of
from tests.gateway.forked_commands import forked
from tests.gateway.storage.sql.used import used
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth: {{admin_key: key-of-the-operator}}
server: {{workers: 2, drain_delay_s: 0, sse_keepalive_s: {keepalive_s}}}
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: k}}]
models:
  - {{name: chat, backends: [{{provider: a, model: x}}, {{provider: a, model: y}},
     {{provider: a, model: z}}]}}
  - {{name: guarded, retry: {{attempts: 1}}, breaker: {{min_requests: 1000}},
     backends: [{{provider: a, model: x}}, {{provider: a, model: bad}}]}}
experiments:
  - name: ramp
    model: chat
    assign_by: header:x-session-id
    primary: thumbs_up
    variants:
      - {{name: control, backend: a/x, weight: 45}}
      - {{name: other, backend: a/y, weight: 45}}
      - {{name: growing, backend: a/z, weight: {weight}}}
  - name: harm
    model: guarded
    assign_by: header:x-session-id
    primary: thumbs_up
    planned: 200
    harm_limits: [{{metric: error, worse_by: 0.02}}]
    variants:
      - {{name: control, backend: a/x, weight: 50}}
      - {{name: treatment, backend: a/bad, weight: 50}}
"""
WEIGHTS = (10.0, 22.5, 90.0)
"""Of the growing variant, beside two of 45: 10, 20 and 50 per cent."""
SESSIONS = [f"s{number}" for number in range(60)]
CHAT = "/v1/chat/completions"
OPERATOR = {"authorization": "Bearer key-of-the-operator"}


async def behave(request: Received, answer: Answer) -> None:
    if request.json["model"] == "bad":
        await answer.json({"error": {"message": "broken"}}, status=500)
    else:
        await answers(request, answer)


class Rig:
    """Two workers, and the folder with their store.

    answered: what every request said about itself: the variant by its id.
    """

    def __init__(self, up: Commanded, url: str, folder: Path) -> None:
        self.up = up
        self.folder = folder
        self.answered: dict[str, str] = {}
        self._url = url

    def text(self, weight: float = WEIGHTS[0], keepalive_s: float = 15) -> str:
        return CONFIG.format(url=self._url, weight=weight, keepalive_s=keepalive_s)

    @asynccontextmanager
    async def workers(self) -> AsyncGenerator[list[httpx.AsyncClient], None]:
        """A client for each."""
        async with AsyncExitStack() as stack:
            yield [await self.connect(stack, worker) for worker in (0, 1)]

    async def connect(self, stack: AsyncExitStack, worker: int) -> httpx.AsyncClient:
        client = await connected(self.up, stack, worker)
        client.event_hooks["response"].append(self._note)
        return client

    @contextmanager
    def store(self) -> Generator[SqlStore, None, None]:
        found = open_store(Secret(f"sqlite:///{self.folder / 'strowger.db'}"))
        try:
            yield found
        finally:
            found.close()

    async def written(self) -> None:
        """Until the store has every request so far."""
        async with asyncio.timeout(SOON_S):
            with self.store() as store:
                for one in tuple(self.answered):
                    while store.known_request(one) is None:  # noqa: ASYNC110  another process imports them
                        await asyncio.sleep(0.05)

    def epochs(self, experiment: str) -> tuple[Epoch, ...]:
        with self.store() as store:
            return store.epochs(experiment)

    async def _note(self, answer: httpx.Response) -> None:
        if answer.request.url.path == CHAT:
            headers = answer.headers
            variant = headers.get("x-gateway-variant", "")
            self.answered[headers["x-gateway-request-id"]] = variant


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    """`harm` gets its requests first, because a harm limit takes seconds to see them."""
    folder: Path = tmp_path_factory.mktemp("trials")
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(behave))
        text = CONFIG.format(url=remote.base_url, weight=WEIGHTS[0], keepalive_s=15)
        up = await stack.enter_async_context(forked(folder / "config.yaml", text))
        found = Rig(up, remote.base_url, folder)
        async with found.workers() as clients:
            for number, client in zip(range(120), cycle(clients), strict=False):
                await ask(client, f"u{number}", "guarded")
        yield found


async def ask(client: httpx.AsyncClient, session: str, model: str = "chat") -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return await client.post(CHAT, json=body, headers={"x-session-id": session})


async def variants(client: httpx.AsyncClient) -> dict[str, str]:
    """Return the variant of each session on one worker."""
    return {
        session: (await ask(client, session)).headers.get("x-gateway-variant", "")
        for session in SESSIONS
    }


async def takes_part(client: httpx.AsyncClient, model: str = "chat") -> bool:
    return "x-gateway-variant" in (await ask(client, SESSIONS[0], model)).headers


class Seen(Struct, frozen=True, kw_only=True):
    """One request of the crowd."""

    session: str
    status: int
    variant: str


class Crowd:
    """Sessions that ask over and over, on two connections to each worker."""

    def __init__(self, rig: Rig) -> None:
        self.seen: list[Seen] = []
        self._rig = rig
        self._over = asyncio.Event()

    async def __aenter__(self) -> "Crowd":
        self._stack = AsyncExitStack()
        clients = [await self._rig.connect(self._stack, worker) for worker in (0, 1) for _ in "ab"]
        sessions = cycle(SESSIONS)
        self._asking = [asyncio.create_task(self._ask(one, sessions)) for one in clients]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._over.set()
        await asyncio.gather(*self._asking)
        await self._stack.aclose()

    async def _ask(self, client: httpx.AsyncClient, sessions: Iterator[str]) -> None:
        while not self._over.is_set():
            session = next(sessions)
            answer = await ask(client, session)
            variant = answer.headers.get("x-gateway-variant", "")
            self.seen.append(Seen(session=session, status=answer.status_code, variant=variant))
            await asyncio.sleep(0.02)


async def test_a_ramp_by_edits_moves_units_into_what_grows_and_fails_no_request(rig: Rig) -> None:
    """Ten, twenty, fifty per cent, with two arms that keep their weights, under traffic."""
    begun = len(rig.epochs("ramp")) - 1
    phases: list[Mapping[str, str]] = []
    async with rig.workers() as clients, Crowd(rig) as crowd:
        for weight in WEIGHTS:
            if phases:
                await rig.up.reload(rig.text(weight))
            one, other = [await variants(client) for client in clients]
            assert one == other
            phases.append(one)

    moves = [
        (early[session], late[session])
        for early, late in pairwise(phases)
        for session in SESSIONS
        if early[session] != late[session]
    ]
    grown = [Counter(phase.values())["growing"] for phase in phases]
    epochs = rig.epochs("ramp")[begun:]
    assert {into for _, into in moves} == {"growing"}
    assert {out for out, _ in moves} == {"control", "other"}
    assert 0 < grown[0] < grown[1] < grown[2]
    assert abs(grown[2] - len(SESSIONS) / 2) < 3 * (len(SESSIONS) / 4) ** 0.5
    assert [one.number - begun for one in epochs] == [1, 2, 3]
    assert [one.shares["growing"] for one in epochs] == list(WEIGHTS)
    assert {one.status for one in crowd.seen} == {200}
    assert all(one.variant in {phase[one.session] for phase in phases} for one in crowd.seen)
    assert len(crowd.seen) > 100


async def reached(client: httpx.AsyncClient, *, part: bool) -> None:
    """Until a worker's requests take part, or no longer."""
    async with asyncio.timeout(SOON_S):
        while await takes_part(client) != part:  # noqa: ASYNC110  another process decides
            await asyncio.sleep(0.05)


async def test_an_operators_pause_reaches_every_worker_and_survives_a_reload(rig: Rig) -> None:
    async with rig.workers() as (one, other):
        paths = [f"/admin/experiments/ramp/{what}" for what in ("pause", "resume")]
        paused = (await one.post(paths[0], headers=OPERATOR)).json()
        at_once = await takes_part(one)
        await reached(other, part=False)
        metrics = (await one.get("/metrics")).text
        await rig.up.reload(rig.text(WEIGHTS[-1], keepalive_s=16))
        reloaded = [await takes_part(client) for client in (one, other)]
        resumed = (await other.post(paths[1], headers=OPERATOR)).json()
        await reached(one, part=True)

    assert (paused["paused"], at_once) == (True, False)
    assert 'strowger_experiment_paused{experiment="ramp"} 1.0' in metrics
    assert reloaded == [False, False]
    assert resumed["epoch"] == paused["epoch"] + 1


async def test_a_harm_limits_pause_survives_a_restart_and_all_requests_are_counted_once(
    rig: Rig,
) -> None:
    """The leader, which serves no requests, pauses it and logs that once."""
    everywhere = 'strowger_experiment_paused{experiment="harm"} 1.0'
    async with rig.workers() as clients, asyncio.timeout(SOON_S):
        while everywhere not in (await clients[0].get("/metrics")).text:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.1)
        noticed = [await takes_part(client, "guarded") for client in clients]
        report = (await clients[1].get("/admin/experiments/harm", headers=OPERATOR)).json()
    announced = [line for line in rig.up.lines if "harm is PAUSED" in line]
    await stop(rig.up)
    async with forked(rig.up.config, rig.text(WEIGHTS[-1])) as again:
        rig.up = again
        async with rig.workers() as clients:
            restarted = [await takes_part(client, "guarded") for client in clients]
            others = [await takes_part(client) for client in clients]
            await rig.written()
            await die_in_a_reload(rig, clients[0])
        await stop(again)

    assert noticed == [False, False]
    assert report["paused"]
    assert "treatment" in report["reason"]  # a circuit may be first
    assert len(announced) == 1
    assert restarted == [False, False]
    assert others == [True, True]
    with rig.store() as store:
        unknown = [one for one in rig.answered if store.known_request(one) is None]
        attempts = sum(row.attempts for row in used(store))
        counted = [row for name in ("ramp", "harm") for row in store.request_counts(name)]
    assert unknown == []
    assert attempts == len(rig.answered)
    assert sum(row.requests for row in counted) == sum(map(bool, rig.answered.values()))


async def stop(up: Commanded) -> None:
    """SIGTERM, which loses nothing."""
    up.process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(up.process.wait(), SOON_S)


async def die_in_a_reload(rig: Rig, client: httpx.AsyncClient) -> None:
    """kill -9 to a worker that has requests of an older generation of the file on record."""
    doomed, since = pid_of(client), len(rig.up.lines)
    os.kill(doomed, signal.SIGSTOP)
    rig.up.edit(rig.text(WEIGHTS[-1], keepalive_s=17))
    await rig.up.said("has changed", since=since)
    os.kill(doomed, signal.SIGKILL)
    await rig.up.said("is in effect", since=since)
