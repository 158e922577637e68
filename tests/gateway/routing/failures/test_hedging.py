"""Hedging races a late backend with the next one: order, winner and cost."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

Asks = tuple[str, dict[str, object]]
CHAT: Asks = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
STREAM: Asks = (CHAT[0], {**CHAT[1], "stream": True})
EMBED: Asks = ("/v1/embeddings", {"input": "hi"})
EVERY_TASK = pytest.mark.parametrize(
    "asks", [CHAT, STREAM, EMBED], ids=["whole", "stream", "embed"]
)


WORKING: Counter[str] = Counter()
"""By the name of the model, the requests that are being answered."""


FAILED: Counter[str] = Counter()


async def behave(request: Received, answer: Answer) -> None:
    kind = str(request.json["model"])
    WORKING[kind] += 1
    try:
        await behave_as(kind, request, answer)
    finally:
        WORKING[kind] -= 1


async def behave_as(kind: str, request: Received, answer: Answer) -> None:
    """As the name of the model says: what happens, and after how long."""
    if kind.startswith("never"):
        await answer.gone.wait()
        return
    if kind.startswith("slow"):
        await asyncio.sleep(0.3)
    if kind == "late-error":
        await asyncio.sleep(0.15)
    if kind == "later-error-once" and not FAILED[kind]:
        FAILED[kind] += 1
        await asyncio.sleep(0.3)
        await answer.json({"error": {"message": "boom"}}, 500)
    elif kind.endswith("error"):
        await answer.json({"error": {"message": "boom"}}, 500)
    elif kind == "late-refusal":
        await asyncio.sleep(0.15)
        await answer.json({"error": {"message": "no", "type": "invalid_request_error"}}, 400)
    elif kind == "refusal":
        await answer.json({"error": {"message": "no", "type": "invalid_request_error"}}, 400)
    elif kind == "stops" and request.json.get("stream"):
        await answer.begin_stream()
        await answer.text("hel")
        answer.close()
    else:
        await answers(request, answer)


MODELS = {
    "hedged": ("never", "fast"),
    "first-wins": ("slow", "never"),
    "quick": ("fast", "never"),
    "hedge-fails": ("slow", "error"),
    "hedge-refuses": ("slow", "refusal"),
    "first-fails": ("late-error", "slow"),
    "first-refuses": ("late-refusal", "never"),
    "both-fail": ("late-error", "error"),
    "survivor": ("late-error", "later-error-once"),
    "three": ("never", "slow", "fast"),
    "unanswered": ("never-one", "never-two", "fast"),
    "stops": ("never", "stops"),
    "alone": ("slow",),
}


@pytest.fixture(scope="module")
async def hedging(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[tuple[Serving, Provider], None]:
    async with provider(behave) as remote:
        async with serving(config(remote.base_url), tmp_path_factory.mktemp("run")) as running:
            yield running, remote


Hedging = tuple[Serving, Provider]


def config(url: str, after_s: float = 0.05) -> str:
    providers = [
        f"  - {{name: {name}, adapter: openai, base_url: {url}, api_key: k}}" for name in "abc"
    ]
    lines = ["providers:", *providers, "models:"]
    for name, kinds in MODELS.items():
        backends = ", ".join(
            f"{{provider: {owner}, model: {kind}}}"
            for owner, kind in zip("abc", kinds, strict=False)
        )
        after = 4 if name == "quick" else after_s  # in time on a busy machine, too
        lines.append(
            f"  - {{name: {name}, policy: in_order, hedge_after_s: {after}, deadline_s: 5,\n"
            "     on_slow: keep,\n"
            f"     retry: {{backoff_s: 0.01}}, backends: [{backends}]}}"
        )
    return "\n".join(lines)


async def ask(hedging: Hedging, model: str, asks: Asks = CHAT) -> tuple[httpx.Response, AccessLine]:
    """The answer, and what the log says."""
    running, (path, body) = hedging[0], asks
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        answer = await client.post(path, json={"model": model, **body}, timeout=60)
    line = running.access_lines()[-1]
    assert line.model == model
    return answer, line


def reported(line: AccessLine) -> list[tuple[str, str, str, bool]]:
    return [(one.backend, one.outcome, one.role, one.hedge) for one in line.attempts]


@EVERY_TASK
async def test_a_second_backend_answers_if_the_first_is_late_and_the_first_is_cancelled(
    hedging: Hedging, asks: Asks
) -> None:
    answer, line = await ask(hedging, "hedged", asks)
    await hedging[1].until(lambda: not WORKING["never"])

    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == line.backend == "b/fast"
    assert answer.headers["x-gateway-hedged"] == "a/never, b/fast"
    assert answer.headers["x-gateway-attempts"] == "2"
    assert reported(line) == [("a/never", "lost", "hedge", False), ("b/fast", "ok", "", True)]


@EVERY_TASK
async def test_the_first_still_wins_where_it_is_faster_in_the_end(
    hedging: Hedging, asks: Asks
) -> None:
    answer, line = await ask(hedging, "first-wins", asks)
    await hedging[1].until(lambda: not WORKING["never"])

    assert answer.headers["x-gateway-backend"] == line.backend == "a/slow"
    assert answer.headers["x-gateway-hedged"] == "a/slow, b/never"
    assert reported(line) == [("a/slow", "ok", "", False), ("b/never", "lost", "hedge", True)]


@EVERY_TASK
async def test_a_backend_that_is_in_time_gets_no_hedge(hedging: Hedging, asks: Asks) -> None:
    answer, line = await ask(hedging, "quick", asks)

    assert "x-gateway-hedged" not in answer.headers
    assert reported(line) == [("a/fast", "ok", "", False)]


@EVERY_TASK
@pytest.mark.parametrize("model", ["hedge-fails", "hedge-refuses"])
async def test_a_hedge_that_fails_does_not_affect_the_request(
    model: str, hedging: Hedging, asks: Asks
) -> None:
    answer, line = await ask(hedging, model, asks)

    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == line.backend == "a/slow"
    assert reported(line)[0] == ("a/slow", "ok", "", False)
    assert (line.attempts[1].role, line.attempts[1].hedge) == ("hedge", True)


@EVERY_TASK
async def test_the_hedge_answers_if_the_first_attempt_fails(hedging: Hedging, asks: Asks) -> None:
    answer, line = await ask(hedging, "first-fails", asks)

    assert answer.headers["x-gateway-backend"] == "b/slow"
    assert reported(line) == [
        ("a/late-error", "upstream_failed", "", False),
        ("b/slow", "ok", "", True),
    ]


async def test_a_refusal_of_the_request_itself_ends_the_race(hedging: Hedging) -> None:
    answer, line = await ask(hedging, "first-refuses")
    await hedging[1].until(lambda: not WORKING["never"])

    assert answer.status_code == 400
    assert [one.backend for one in line.attempts] == ["a/late-refusal", "b/never"]


async def test_hedges_count_among_the_attempts(hedging: Hedging) -> None:
    answer, line = await ask(hedging, "both-fail")

    assert answer.status_code == 502
    assert answer.headers["x-gateway-attempts"] == "3"
    assert [one.backend for one in line.attempts][:2] == ["a/late-error", "b/error"]
    assert sum(one.hedge for one in line.attempts) == 1


async def test_of_two_that_failed_the_one_that_failed_last_is_tried_again(hedging: Hedging) -> None:
    answer, line = await ask(hedging, "survivor")

    assert answer.status_code == 200
    assert [one.backend for one in line.attempts] == [
        "a/late-error",
        "b/later-error-once",
        "b/later-error-once",
    ]


async def test_there_are_never_two_hedges(hedging: Hedging) -> None:
    answer, line = await ask(hedging, "three")

    assert answer.headers["x-gateway-backend"] == "b/slow"
    assert len(line.attempts) == 2


async def test_no_backend_is_tried_twice_concurrently(hedging: Hedging) -> None:
    _, line = await ask(hedging, "alone")

    assert reported(line) == [("a/slow", "ok", "", False)]


async def test_a_stream_that_the_hedge_began_is_its_own_to_end(hedging: Hedging) -> None:
    answer, line = await ask(hedging, "stops", STREAM)

    assert "upstream_broken" in answer.text
    assert "[DONE]" not in answer.text
    assert reported(line)[1] == ("b/stops", "upstream_broken", "", True)


async def test_a_client_that_disconnects_cancels_both_attempts(hedging: Hedging) -> None:
    running, remote = hedging
    both = ("never-one", "never-two")

    async with httpx.AsyncClient(base_url=running.url, timeout=60) as client:
        asking = asyncio.create_task(client.post(CHAT[0], json={**CHAT[1], "model": "unanswered"}))
        await remote.until(lambda: sum(one.json["model"] in both for one in remote.requests) == 2)
        asking.cancel()
        await asyncio.wait({asking})
    await remote.until(lambda: not any(WORKING[one] for one in both))

    line = running.access_lines()[-1]
    assert (line.model, line.status) == ("unanswered", 499)
    assert [one.outcome for one in line.attempts] == ["cancelled", "cancelled"]


async def test_a_race_that_was_lost_is_not_a_failure_and_counts_as_slow(hedging: Hedging) -> None:
    for _ in range(6):
        await ask(hedging, "hedged")

    late = hedging[0].state.runtime.backends["hedged: a/never"]
    assert late.breaker.is_available(asyncio.get_running_loop().time())
    assert (late.load.latency(asyncio.get_running_loop().time(), stream=False) or 0) >= 0.04
    assert late.load.in_flight == 0


async def test_hedges_are_counted_by_what_became_of_them(hedging: Hedging) -> None:
    await ask(hedging, "hedged")
    await ask(hedging, "first-wins")

    text = (await hedging[0].state.processes.metrics_text())[0].decode()
    assert 'strowger_hedges_total{model="hedged",outcome="ok"}' in text
    assert 'strowger_hedges_total{model="first-wins",outcome="lost"}' in text
    assert 'strowger_requests_total{backend="a/slow",model="first-wins",status="200"' in text


async def test_hedges_have_a_budget(tmp_path: Path) -> None:
    async with (
        provider(behave) as remote,
        serving(config(remote.base_url, 0.01), tmp_path) as running,
    ):
        found = await asyncio.gather(*(ask((running, remote), "first-wins") for _ in range(30)))
        hedged = [answer for answer, _ in found if "x-gateway-hedged" in answer.headers]

    assert all(answer.status_code == 200 for answer, _ in found)
    assert len(hedged) == 10
