"""A bug in one part: the others keep what they hold and record, and the log names the part.

The part `faulty` fails where its section says, in one process and with two workers.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.fleet.processes.other_workers import PEER_TIMEOUT_S
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded, commanded
from tests.gateway.parts.adding import environment, tree_with
from tests.stand_ins.provider import Answer, Received, provider

CONFIG = """
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{{name: app, key: key-of-the-app-1234}}]
server: {{workers: {workers}}}
store: {{url: "sqlite:///{folder}/store.db", spool: "{folder}/spool"}}
providers: [{{name: p, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
limits: [{{name: few, who: {{key: app}}, concurrent: 2}}]
faulty: {{bugs: [{bugs}]}}
"""
ISOLATED = (
    "use follow taker take leave on_message leader.on_message joined left idle close aclose"
    " leader.close"
)
"""Where a bug must cost nobody else anything."""

pytestmark = pytest.mark.anyio


class Kept(Struct, frozen=True, kw_only=True):
    """A gateway that several tests use. config: that it has started with, without bugs."""

    gateway: Commanded
    workers: int
    config: str


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the part."""
    root = tmp_path_factory.mktemp("tree")
    return tree_with("tests.gateway.parts.faulty.part:FaultyPart", root)


async def _answers(request: Received, answer: Answer) -> None:
    if b"Refuse" in request.body:
        await answer.json({"error": {"message": "no"}}, 400)
    elif not request.json.get("stream"):
        await answer.chat("Good morning")
    else:
        await answer.begin_stream()
        await answer.text("Good morning")
        if b"Hold" in request.body:
            await answer.gone.wait()
        else:
            await answer.end_stream()


@asynccontextmanager
async def faulty(
    tree: Path, folder: Path, workers: int, bugs: str = ""
) -> AsyncGenerator[Commanded, None]:
    async with provider(_answers) as vendor:
        text = CONFIG.format(folder=folder, url=vendor.base_url, workers=workers, bugs=bugs)
        command = environment(tree)
        async with commanded(folder / "c.yaml", text, env=command, folder=folder) as gateway:
            yield gateway


@pytest.fixture(scope="module", params=[1, 2], ids=["one", "two"])
async def kept(
    request: pytest.FixtureRequest, tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Kept, None]:
    """A gateway for tests that leave it serving; each loads the bugs that it needs."""
    workers = int(request.param)
    async with faulty(tree, tmp_path_factory.mktemp("kept"), workers) as gateway:
        yield Kept(gateway=gateway, workers=workers, config=gateway.config.read_text())


def with_bugs(gateway: Commanded, bugs: str) -> str:
    """Return its configuration with these bugs."""
    before, key, _ = gateway.config.read_text().partition("faulty: ")
    return f"{before}{key}{{bugs: [{bugs}]}}\n"


APP = "Bearer key-of-the-app-1234"


def body_of(text: str, *, stream: bool) -> dict[str, object]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}], "stream": stream}


async def ask(
    gateway: Commanded, text: str = "Good evening!", *, stream: bool = True
) -> httpx.Response:
    body = body_of(text, stream=stream)
    async with gateway.client(authorization=APP) as client:
        return await client.post("/v1/chat/completions", json=body)


async def hang_up(gateway: Commanded) -> None:
    """Disconnect after the first content of a stream."""
    async with (
        gateway.client(authorization=APP) as client,
        client.stream("POST", "/v1/chat/completions", json=body_of("Hold", stream=True)) as answer,
    ):
        async for line in answer.aiter_lines():
            if "Good morning" in line:
                return


def workers_of(gateway: Commanded) -> list[int]:
    """Return the process ids of the workers that run."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            child = int(parent) == gateway.process.pid
            if child and b"processes.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


async def kill_a_worker(gateway: Commanded) -> None:
    os.kill(workers_of(gateway)[0], signal.SIGKILL)
    await gateway.said("was killed by signal 9")


async def failures(gateway: Commanded) -> float:
    """Return how many internal errors the metrics show."""
    async with gateway.client(**OPERATOR) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    name = "strowger_internal_errors_total{"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_bug_in_a_part_costs_no_other_anything(
    workers: int, tree: Path, tmp_path: Path
) -> None:
    bugs = ", ".join(ISOLATED.split())
    async with faulty(tree, tmp_path, workers) as gateway:
        await gateway.reload(with_bugs(gateway, bugs))
        # More requests than the limit has slots: each is given back although a stage fails.
        answers = [await ask(gateway) for _ in range(4)]
        assert [one.status_code for one in answers] == [200] * 4
        assert all("data: [DONE]" in one.text for one in answers)
        assert all('"error"' not in one.text for one in answers)
        assert await failures(gateway) >= 4
        for told in ("using a configuration", "following a generation", "taking a message"):
            await gateway.said(f"part faulty: {told} failed")

        # No worker has been lost by it, and the end is as orderly as without it.
        gateway.process.send_signal(signal.SIGTERM)
        assert await gateway.process.wait() == 0
        assert [line for line in gateway.lines if "restarting" in line] == []
        assert len([line for line in gateway.access if line.get("status") == 200]) == 4


async def test_a_stage_that_fails_to_leave_keeps_nothing_however_a_request_ends(
    kept: Kept,
) -> None:
    gateway = kept.gateway
    await gateway.reload(with_bugs(gateway, "leave"))
    begin = len(gateway.access)
    # Each kind comes more often than the limit has slots.
    whole = [await ask(gateway, stream=False) for _ in range(3)]
    refused = [await ask(gateway, "Refuse", stream=stream) for stream in (True, False, True)]
    for ended in range(1, 4):
        await hang_up(gateway)
        await logged(gateway, ended, since=begin, status=499)
    again = await ask(gateway)
    await logged(gateway, 10, since=begin, surface="openai")

    assert [one.status_code for one in whole] == [200] * 3
    assert [one.json()["choices"][0]["message"]["content"] for one in whole] == ["Good morning"] * 3
    assert [one.status_code for one in refused] == [400] * 3
    assert again.status_code == 200


async def logged(gateway: Commanded, many: int, since: int, **fields: object) -> None:
    """Wait for as many access lines with these fields, and for no more."""

    def found() -> int:
        lines = gateway.access[since:]
        return sum(fields.items() <= line.items() for line in lines)

    async with asyncio.timeout(SOON_S):
        while found() < many:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert found() == many


async def test_what_parts_have_opened_for_a_rejected_configuration_is_closed(kept: Kept) -> None:
    gateway, workers = kept.gateway, kept.workers
    await gateway.reload(kept.config.replace("concurrent: 2", "concurrent: 4"))
    since = len(gateway.lines)
    # The last process refuses; with two, the other one has prepared it.
    gateway.edit(with_bugs(gateway, f"ready.{workers - 1}"))
    await gateway.said("rejected, keeping the previous one", since=since)
    for _ in range(workers):
        told = await gateway.said("what faulty has of a generation is closed", since=since)
        since = gateway.lines.index(told, since) + 1
    assert (await ask(gateway)).status_code == 200
    await gateway.reload(kept.config.replace("concurrent: 2", "concurrent: 3"))
    assert (await ask(gateway)).status_code == 200


async def test_who_asks_a_part_that_cannot_answer_is_told_at_once(kept: Kept) -> None:
    gateway = kept.gateway
    await gateway.reload(kept.config)
    async with gateway.client(**OPERATOR) as client:
        assert (await client.get("/admin/faulty")).status_code == 200
        await gateway.reload(with_bugs(gateway, "answer"))
        began = monotonic()
        refused = await client.get("/admin/faulty")
        assert monotonic() - began < PEER_TIMEOUT_S
        assert refused.status_code == 503
        assert "faulty cannot answer" in refused.text
        await gateway.said("part faulty: answering a question failed")


@pytest.mark.parametrize(
    ("bug", "workers"),
    [
        ("release", 1),
        ("release", 2),
        ("carry", 2),
        ("carried", 2),
        pytest.param("carry", 1, marks=pytest.mark.nightly),
        pytest.param("carried", 1, marks=pytest.mark.nightly),
    ],
)
async def test_a_part_that_fails_in_a_hand_over_leaves_no_gap(
    bug: str, workers: int, tree: Path, tmp_path: Path
) -> None:
    async with faulty(tree, tmp_path, workers) as gateway:
        await gateway.reload(with_bugs(gateway, bug))
        gateway.process.send_signal(signal.SIGUSR2)
        told = await gateway.said("takes over")
        successor = int(told.removeprefix("process ").split()[0])
        try:
            assert (await ask(gateway)).status_code == 200
            assert await asyncio.wait_for(gateway.process.wait(), SOON_S) == 0
            assert (await ask(gateway)).status_code == 200
            assert any("part faulty" in line for line in gateway.lines)
        finally:
            os.kill(successor, signal.SIGTERM)


async def test_a_worker_that_cannot_be_told_the_state_is_started_again(
    tree: Path, tmp_path: Path
) -> None:
    async with faulty(tree, tmp_path, 2) as gateway:
        await gateway.reload(with_bugs(gateway, "first"))
        await kill_a_worker(gateway)
        since = len(gateway.lines)
        for _ in range(2):
            told = await gateway.said("was stopped after an internal error", since=since)
            since = gateway.lines.index(told, since) + 1
        assert any("telling a new worker of the state" in line for line in gateway.lines)
        assert (await ask(gateway)).status_code == 200
        await gateway.reload(with_bugs(gateway, ""))
        await gateway.said("ready", since=since)
        assert len(workers_of(gateway)) == 2


RELOADS = {
    "check": "checking a configuration",
    "restart_needed": "comparing configurations",
    "leader.prepare": "preparing a configuration",
    "prepare": "preparing a configuration",
    "ready": "getting ready",
}


async def test_a_reload_that_a_part_fails_names_it_and_changes_nothing(kept: Kept) -> None:
    gateway = kept.gateway
    await gateway.reload(kept.config)
    for slots, (bug, told) in enumerate(RELOADS.items(), 3):
        since = len(gateway.lines)
        gateway.edit(with_bugs(gateway, bug))
        rejected = await gateway.said("rejected, keeping the previous one", since=since)
        assert f"a bug in {bug}; part faulty: {told} failed" in rejected
        assert (await ask(gateway)).status_code == 200
        await gateway.reload(kept.config.replace("concurrent: 2", f"concurrent: {slots}"))
        assert (await ask(gateway)).status_code == 200


@pytest.mark.parametrize(
    ("bug", "told"),
    [
        ("leader", "building the leader's side"),
        ("leader.prepare", "preparing a configuration"),
        ("leader.start", "its start"),
        ("leader.works", "listing what it runs"),
    ],
)
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.nightly)])
async def test_a_start_that_a_part_fails_names_it(
    bug: str, told: str, workers: int, tree: Path, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="the command has ended") as failed:
        async with faulty(tree, tmp_path, workers, bug):
            pass
    assert f"part faulty: {told} failed" in str(failed.value)
