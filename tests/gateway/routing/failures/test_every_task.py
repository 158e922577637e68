"""Routing's promises, for every task of every surface, with providers and engines alike."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from tests.gateway.routing.failures.fault_scenarios import Sees
from tests.gateway.routing.failures.fault_tasks import client_sees, data_of, failure, frames_of
from tests.gateway.routing.failures.staging import CASTS, PAUSE_S, Stage, model_of, staged

pytestmark = pytest.mark.anyio

PLAYS = {
    "hedged": ("never", "fast"),
    "raced": ("fast", "never"),
    "alone": ("never",),
    "begun": ("half",),
    "paused": ("busy",),
    "broken": ("down", "fast"),
    "late": ("never",),
    "copied": ("fast", "fast"),
    "told": ("tired",),
    "spent": ("down",),
}
MORE = {
    "hedged": "hedge_after_s: 0.05,",
    "raced": "hedge_after_s: 5,",
    "broken": "retry: {attempts: 2}, breaker: {min_requests: 2, cooldown_s: 60},",
    "late": "deadline_s: 0.2,",
    "spent": "retry: {attempts: 2, backoff_s: 0}, breaker: {min_requests: 1000},",
    "copied": "mirror: {backend: fast-1-MODEL/fast-1-MODEL, share: 1},",
}
FINE = Sees(asked=(1, 0))
STREAMS = [name for name, cast in CASTS.items() if cast.task.stream]


def silence(cast: str) -> str:
    """What goes out while there is nothing to say."""
    match CASTS[cast].task.surface:
        case "databricks":
            return "\n\n"
        case "anthropic":
            return 'event: ping\ndata: {"type":"ping"}\n\n'
        case "ollama":
            return " "
        case _:
            return ": keep-alive\n\n"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage, None]:
    silence = "\nserver: {sse_keepalive_s: 0.1}"
    async with staged(tmp_path_factory.mktemp("run"), PLAYS, MORE, silence) as running:
        yield running


async def test_the_next_answers_if_the_first_is_late_and_the_first_is_cancelled(
    stage: Stage,
) -> None:
    found = await stage.ask_all("hedged")
    await stage.rest("never")

    for cast, answer in found.items():
        client_sees(CASTS[cast].task, answer, FINE)
        reported = [
            (one.outcome, one.role, one.hedge) for one in stage.line("hedged", cast).attempts
        ]
        assert answer.headers["x-gateway-backend"].startswith("fast-"), cast
        assert reported == [("lost", "hedge", False), ("ok", "", True)], cast


async def test_a_backend_that_is_in_time_gets_no_hedge(stage: Stage) -> None:
    found = await stage.ask_all("raced")

    assert {cast for cast, one in found.items() if "x-gateway-hedged" in one.headers} == set()
    assert not [name for name in stage.received if name.startswith("never-1-raced")]


async def leave(stage: Stage, play: str, cast: str, *, begun: bool) -> None:
    """Ask, and go when the backend has begun, or once it was asked."""
    model, task = model_of(play, cast), CASTS[cast].task
    async with httpx.AsyncClient(base_url=stage.gateway.url, timeout=60) as client:
        body = task.body if "{model}" in task.path else {"model": model, **task.body}
        asking = client.build_request("POST", task.path.format(model=model), json=body)
        sending = asyncio.create_task(client.send(asking, stream=True))
        if begun:
            await (await sending).aclose()
            return
        while not any(name.endswith(f"-0-{model}") for name in stage.received):  # noqa: ASYNC110  two kinds of servers would have to signal it
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        sending.cancel()
        await asyncio.wait({sending})


@pytest.mark.parametrize("play", ["alone", "begun", "paused"])
async def test_a_client_that_disconnects_closes_the_connection_to_the_backend(
    stage: Stage, play: str
) -> None:
    casts = STREAMS if play == "begun" else [*CASTS]

    await asyncio.gather(*(leave(stage, play, cast, begun=play == "begun") for cast in casts))
    await stage.rest("never")
    await stage.rest("half")
    for _ in range(6000):  # a client that stops sending may still read: it has 50 ms
        if not stage.gateway.state.admission.in_flight:
            break
        await asyncio.sleep(0.01)

    assert stage.gateway.state.admission.in_flight == 0
    for cast in casts:
        line = stage.line(play, cast)
        assert (line.status, line.error) == (499, "client_closed_request"), cast
        assert len(line.attempts) == 1, cast
        assert line.completion_tokens == (1 if play == "begun" else None), cast


async def test_a_failing_backend_gets_no_requests_once_its_circuit_is_open(stage: Stage) -> None:
    for _ in range(4):
        found = await stage.ask_all("broken")
        for cast, answer in found.items():
            client_sees(CASTS[cast].task, answer, FINE)

    received = {
        name: count for name, count in stage.received.items() if name.startswith("down-0-broken")
    }
    assert len(received) == len(CASTS)
    assert set(received.values()) == {2}


async def test_the_next_attempt_is_no_sooner_than_the_retry_after(stage: Stage) -> None:
    found = await stage.ask_all("told")

    for cast, answer in found.items():
        client_sees(CASTS[cast].task, answer, FINE)
        assert answer.headers["x-gateway-attempts"] == "2", cast
        assert stage.line("told", cast).ms >= PAUSE_S * 1e3, cast


async def test_retries_have_a_budget(stage: Stage) -> None:
    casts = ("embedding", "tokens-stream", "completion, here", "tokens-stream, here")
    for _ in range(12):
        await stage.ask_all("spent", casts)

    received = [stage.received[f"down-0-{model_of('spent', cast)}"] for cast in casts]
    assert received == [12 + 10] * len(casts)


async def test_the_deadline_holds(stage: Stage) -> None:
    found = await stage.ask_all("late")
    await stage.rest("never")

    for cast, answer in found.items():
        client_sees(
            CASTS[cast].task, answer, Sees(asked=(1, 0), status=504, error="deadline_exceeded")
        )


async def test_a_stream_that_is_silent_is_kept_alive(stage: Stage) -> None:
    """With a comment, Anthropic's ping, or empty lines for Databricks' clients."""

    async def alive(cast: str) -> bool:
        model, task = model_of("begun", cast), CASTS[cast].task
        body = task.body if "{model}" in task.path else {"model": model, **task.body}
        said = ""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=60))
            url = f"{stage.gateway.url}{task.path.format(model=model)}"
            answer = await stack.enter_async_context(client.stream("POST", url, json=body))
            async for piece in answer.aiter_text():
                said += piece
                if f"\n{silence(cast)}" in said or said.startswith(silence(cast)):
                    return True
        return False

    assert all(await asyncio.gather(*(alive(cast) for cast in STREAMS)))
    await stage.rest("half")


async def test_copies_go_out_and_are_compared(stage: Stage) -> None:
    found = await stage.ask_all("copied")
    await stage.gateway.state.side(MirrorsSide).copies.wait_idle()

    lines = {line.route: line for line in stage.gateway.mirror_lines()}
    for cast, answer in found.items():
        line = lines[model_of("copied", cast)]
        assert answer.headers["x-gateway-attempts"] == "1", cast
        assert (line.outcome, line.reason, line.mirror_dropped) == ("ok", "", ()), cast
        assert line.compared is not None, cast
        assert line.compared.same_tokens is (None if CASTS[cast].task.is_text else True), cast


async def test_a_stream_that_was_begun_early_ends_in_an_error_of_its_dialect(
    tmp_path: Path,
) -> None:
    """Where comments go out before content, a failure comes too late for a status."""
    more = {"begun": "retry: {attempts: 1},"}
    early = "\nserver: {commit_after_s: 0.05}"
    async with staged(tmp_path, {"begun": ("late",)}, more, early) as stage:
        found = await stage.ask_all("begun")

    for cast, answer in found.items():
        task = CASTS[cast].task
        if not task.stream:
            client_sees(task, answer, Sees(asked=(1, 0), status=502, error="upstream_failed"))
            continue
        assert answer.text.startswith(silence(cast)), cast
        assert answer.status_code == 200, cast
        last = data_of(frames_of(task, answer.text)[-1])
        assert failure(task, json.loads(last), "upstream_failed"), cast
        assert "[DONE]" not in answer.text, cast
