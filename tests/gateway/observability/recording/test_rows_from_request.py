"""The rows of requests: one for each, and one for every attempt, however they ended."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.observability.recording.rows_from_request import expand_rows
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow, Row, SpoolEntry
from tests.gateway.routing.failures.fault_scenarios import answers as fault_answers
from tests.gateway.routing.failures.fault_scenarios import cut_in_the_middle
from tests.gateway.routing.failures.fault_tasks import TOKENS
from tests.gateway.routing.failures.test_disconnects import hang_up_after
from tests.gateway.routing.failures.test_failures import internal_error, two_backends
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
PRICES = "prices: [{match: 'a/*', input: 1, output: 10}, {match: 'b/*', input: 2, output: 20}]\n"


class Kept:
    """A recorder that keeps its rows, or says that it can keep no more."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.full = False

    def add(self, row: SpoolEntry) -> None:
        self.extend((row,))

    def extend(self, rows: Iterable[SpoolEntry]) -> None:
        self.rows += expand_rows(rows)

    def requests(self, gateway: Serving) -> list[RequestRow]:
        gateway.state.log.flush()
        return [row for row in self.rows if isinstance(row, RequestRow)]

    def attempts(self) -> list[AttemptRow]:
        return [row for row in self.rows if isinstance(row, AttemptRow)]


async def post(gateway: Serving, **more: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post("/v1/chat/completions", json={**HELLO, **more})


@pytest.mark.anyio
async def test_a_failed_attempt_has_a_row_in_addition_to_the_one_that_served(
    tmp_path: Path,
) -> None:
    kept = Kept()
    async with (
        provider(internal_error) as a,
        provider() as b,
        serving(two_backends(a.base_url, b.base_url) + PRICES, tmp_path, recorder=kept) as gateway,
    ):
        await post(gateway)
        (request,) = kept.requests(gateway)

    assert (request.status, request.backend, request.completion_tokens) == (200, "b/m", 3)
    *failed, served = kept.attempts()
    assert {(row.role, row.outcome, row.usage_source) for row in failed} == {
        ("failed", "upstream_failed", "")
    }
    assert (served.role, served.backend, served.usage_source) == ("served", "b/m", "reported")
    assert served.cost_usd == request.cost_usd == pytest.approx((7 * 2 + 3 * 20) / 1e6)
    assert [row.number for row in kept.attempts()] == list(range(1, len(failed) + 2))


@pytest.mark.anyio
async def test_usage_before_an_answer_broke_off_is_recorded_with_that_attempt(
    tmp_path: Path,
) -> None:
    """MindIE is always asked for a stream, so this client never sees the token that was lost."""
    kept = Kept()
    async with provider(cut_in_the_middle) as a, provider(fault_answers) as b:
        config = two_backends(a.origin, b.origin).replace("adapter: openai", "adapter: mindie")
        async with serving(config, tmp_path, recorder=kept) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                answer = await client.post("/v1/models/chat/infer_token", json=TOKENS)
            (request,) = kept.requests(gateway)

    *failed, served = kept.attempts()
    assert (answer.status_code, request.completion_tokens) == (200, 2)
    assert {(row.backend, row.role, row.usage_source) for row in failed} == {
        ("a/m", "failed", "estimated")
    }
    assert {row.completion_tokens for row in failed} == {1}
    assert (served.backend, served.role, served.completion_tokens) == ("b/m", "served", 2)


@pytest.mark.anyio
async def test_a_hedge_costs_what_both_backends_were_sent(tmp_path: Path) -> None:
    """The loser reports no usage; it received the same prompt, and is assumed to charge for it."""

    async def never(request: Received, answer: Answer) -> None:
        await answer.gone.wait()

    kept = Kept()
    async with provider(never) as a, provider() as b:
        config = two_backends(a.base_url, b.base_url, "    hedge_after_s: 0.05\n")
        async with serving(config + PRICES, tmp_path, recorder=kept) as gateway:
            await post(gateway)
            (request,) = kept.requests(gateway)

    lost, served = kept.attempts()
    assert (lost.role, lost.outcome, lost.usage_source) == ("hedge", "lost", "estimated")
    assert (lost.prompt_tokens, lost.completion_tokens) == (7, None)
    assert lost.cost_usd == pytest.approx(7 * 1 / 1e6)
    assert (served.role, served.usage_source) == ("served", "reported")
    assert served.cost_usd == request.cost_usd == pytest.approx((7 * 2 + 3 * 20) / 1e6)


@pytest.mark.anyio
@pytest.mark.parametrize("fails", ["first", "hedge"])
async def test_of_two_concurrent_attempts_the_failed_one_is_recorded_with_its_usage(
    fails: str, tmp_path: Path
) -> None:
    both, given_up = asyncio.Event(), asyncio.Event()

    async def gives_up(request: Received, answer: Answer) -> None:
        await (both.wait() if fails == "first" else asyncio.sleep(0))
        await answer.chat(finish="error")
        given_up.set()

    async def goes_on(request: Received, answer: Answer) -> None:
        both.set()
        await given_up.wait()
        await asyncio.sleep(0.2)
        await answer.chat()

    first, hedge = (gives_up, goes_on) if fails == "first" else (goes_on, gives_up)
    kept = Kept()
    async with provider(first) as a, provider(hedge) as b:
        config = two_backends(a.base_url, b.base_url, "    hedge_after_s: 0.03\n")
        async with serving(config + PRICES, tmp_path, recorder=kept) as gateway:
            await post(gateway)
            kept.requests(gateway)

    failed, served = sorted(kept.attempts(), key=lambda one: one.outcome == "ok")
    assert (failed.role, failed.outcome) == ("failed" if fails == "first" else "hedge", "error")
    assert (failed.usage_source, failed.prompt_tokens, failed.completion_tokens) == (
        "reported",
        7,
        3,
    )
    dear = 1 if fails == "first" else 2
    assert failed.cost_usd == pytest.approx(dear * (7 * 1 + 3 * 10) / 1e6)
    assert (served.role, served.usage_source, served.completion_tokens) == ("served", "reported", 3)


@pytest.mark.anyio
async def test_a_client_that_disconnects_is_recorded_once_with_output_and_cost(
    tmp_path: Path,
) -> None:
    async def endless(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        while not answer.gone.is_set():
            await answer.text("word ")
            await asyncio.sleep(0.01)

    kept = Kept()
    prices = "prices: [{match: 'remote/*', input: 1, output: 2}]"
    async with (
        provider(endless) as remote,
        serving(one_model(remote.base_url, prices), tmp_path, recorder=kept) as gateway,
    ):
        await hang_up_after(gateway, stream=True, wait_for=b"word")
        while not (found := kept.requests(gateway)):  # noqa: ASYNC110  rows come without an event
            await asyncio.sleep(0.02)

    (request,), (attempt,) = found, kept.attempts()
    assert (request.status, attempt.role, attempt.outcome) == (499, "served", "cancelled")
    assert attempt.usage_source == "estimated"
    assert attempt.completion_tokens == request.completion_tokens
    prompt, completion = attempt.prompt_tokens or 0, attempt.completion_tokens or 0
    assert prompt >= 1
    assert completion >= 1
    assert attempt.cost_usd == request.cost_usd == pytest.approx((prompt + 2 * completion) / 1e6)


@pytest.mark.anyio
async def test_refused_requests_are_recorded_without_an_attempt(tmp_path: Path) -> None:
    kept = Kept()
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path, recorder=kept) as gateway,
    ):
        await post(gateway, model="nobody")
        (request,) = kept.requests(gateway)

    assert (request.status, request.error, request.model) == (404, "model_not_found", "nobody")
    assert kept.attempts() == []


@pytest.mark.parametrize(("usage", "status"), [("required", 503), ("best_effort", 200)])
@pytest.mark.anyio
async def test_without_room_for_records_a_request_is_refused_only_where_usage_is_required(
    usage: str, status: int, tmp_path: Path
) -> None:
    kept = Kept()
    kept.full = True
    config = f"store: {{usage: {usage}}}"
    async with (
        provider() as remote,
        serving(one_model(remote.base_url, config), tmp_path, recorder=kept) as gateway,
    ):
        answer = await post(gateway)
        asked = len(remote.requests)
        ready = await readiness(gateway)
        kept.full = False
        later = await post(gateway)

    assert (answer.status_code, asked) == (status, int(status == 200))
    assert later.status_code == 200
    assert ready == status
    if status == 503:
        assert answer.headers["retry-after"] == "5"
        assert "usage records cannot be written" in json.loads(answer.text)["error"]["message"]


async def readiness(gateway: Serving) -> int:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return (await client.get("/readyz")).status_code


@pytest.mark.anyio
async def test_the_access_log_says_no_more_of_an_attempt_than_before(tmp_path: Path) -> None:
    async with provider() as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        await post(gateway)
        gateway.access_lines()
        (line,) = gateway.log.getvalue().splitlines()

    (attempt,) = json.loads(line)["attempts"]
    assert attempt.keys() == {"backend", "outcome", "ms"}
