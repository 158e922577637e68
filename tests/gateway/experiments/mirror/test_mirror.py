"""Copies of requests: which are sent, what is logged, and that no client notices."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.experiments.mirror.mirroring import MAX_IN_FLIGHT
from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.observability.recording.rows_from_request import expand_rows
from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, Row, SpoolEntry
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

MODELS = """
models:
  - {name: all, backends: [{provider: a, model: m}], mirror: {backend: b/works, share: 1},
     defaults: {user: the-operators}}
  - {name: fails, backends: [{provider: a, model: m}], mirror: {backend: b/error, share: 1}}
  - {name: hangs, backends: [{provider: a, model: m}], mirror: {backend: b/never, share: 1}}
  - {name: half, backends: [{provider: a, model: m}], mirror: {backend: b/works, share: 0.5}}
  - {name: broken, backends: [{provider: a, model: error}],
     mirror: {backend: b/works, share: 1}, retry: {attempts: 1}}
  - {name: cut, backends: [{provider: a, model: stops}], mirror: {backend: b/works, share: 1}}
  - {name: two, backends: [{provider: a, model: m}, {provider: b, model: other}],
     mirror: {backend: b/works, share: 0.5}}
prices: [{match: a/*, input: 1, output: 2}, {match: b/*, input: 10, output: 20}]
"""


async def behave(request: Received, answer: Answer) -> None:
    model = request.json["model"]
    if model == "error":
        await answer.json({"error": {"message": "boom"}}, 500)
    elif model == "never":
        await answer.gone.wait()
    elif model == "stops":
        await answer.begin_stream()
        await answer.text("hel")
        answer.close()
    else:
        await answers(request, answer)


class Rows:
    """A recorder that keeps them."""

    full = False

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: SpoolEntry) -> None:
        self.extend((row,))

    def extend(self, rows: Iterable[SpoolEntry]) -> None:
        self.rows += expand_rows(rows)


class Mirroring(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    real: Provider
    shadow: Provider
    records: Rows

    async def ask(self, model: str, asks: Asks = CHAT) -> httpx.Response:
        path, body = asks
        async with httpx.AsyncClient(base_url=self.gateway.url, timeout=60) as client:
            return await client.post(path, json={"model": model, **body}, timeout=60)

    async def line(self, model: str, asks: Asks = CHAT) -> MirrorLogEntry:
        """Return the log entry of the copy of one such request."""
        await self.ask(model, asks)
        await self.gateway.state.side(MirrorsSide).copies.wait_idle()
        return self.gateway.mirror_lines()[-1]


@pytest.fixture(scope="module")
async def mirroring(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Mirroring, None]:
    async with provider(behave) as real, provider(behave) as shadow:
        config = f"""
server: {{max_in_flight: 100}}
providers:
  - {{name: a, adapter: openai, base_url: {real.base_url}, api_key: k}}
  - {{name: b, adapter: openai, base_url: {shadow.base_url}, api_key: k}}
{MODELS}"""
        records = Rows()
        run_dir = tmp_path_factory.mktemp("run")
        async with serving(config, run_dir, seed=1, recorder=records) as running:
            yield Mirroring(gateway=running, real=real, shadow=shadow, records=records)


@EVERY_TASK
async def test_a_copy_goes_out_and_is_compared_with_what_the_client_got(
    mirroring: Mirroring, asks: Asks
) -> None:
    line = await mirroring.line("all", asks)

    sent = mirroring.shadow.requests[-1].json
    assert sent["model"] == "works"
    assert {name: sent[name] for name in asks[1]} == asks[1]
    assert sent["user"] == "the-operators"
    assert (line.route, line.backend, line.mirror, line.outcome) == ("all", "a/m", "b/works", "ok")
    assert (line.ms or 0) > 0
    assert line.mirror_ms > 0
    assert line.mirror_cost_usd == pytest.approx(10 * (line.cost_usd or 0))
    found = line.compared
    assert found is not None
    if asks is EMBED:
        assert found.similarity == pytest.approx(1)
    else:
        assert (found.same_text, found.same_finish) == (True, True)
        assert (found.characters, found.mirror_characters) == (5, 5)
        assert (line.completion_tokens, line.mirror_completion_tokens) == (3, 3)


async def test_a_copy_is_an_attempt_in_the_records_and_none_of_the_requests_own(
    mirroring: Mirroring,
) -> None:
    answer = await mirroring.ask("all")
    await mirroring.gateway.state.side(MirrorsSide).copies.wait_idle()
    (own,) = [one for one in mirroring.gateway.access_lines()[-1:] if one.model == "all"]

    rows = [row for row in mirroring.records.rows if isinstance(row, AttemptRow)]
    attempts = {row.number: row for row in rows if row.request_id == own.request_id}
    assert answer.headers["x-gateway-attempts"] == "1"
    assert [attempts[number].role for number in (1, 2)] == ["served", "mirror"]
    assert (attempts[2].backend, attempts[2].completion_tokens) == ("b/works", 3)
    assert own.completion_tokens == 3


@EVERY_TASK
async def test_what_becomes_of_a_copy_is_nothing_to_the_client(
    mirroring: Mirroring, asks: Asks
) -> None:
    answer = await mirroring.ask("fails", asks)
    await mirroring.gateway.state.side(MirrorsSide).copies.wait_idle()

    line = mirroring.gateway.mirror_lines()[-1]
    assert answer.status_code == 200
    assert answer.headers["x-gateway-attempts"] == "1"
    assert (line.outcome, line.compared) == ("upstream_failed", None)


async def test_a_request_that_failed_is_not_copied(mirroring: Mirroring) -> None:
    sent = len(mirroring.shadow.requests)

    whole = await mirroring.ask("broken")
    stream = await mirroring.ask("broken", STREAM)
    cut = await mirroring.ask("cut", STREAM)
    await mirroring.gateway.state.side(MirrorsSide).copies.wait_idle()

    assert (whole.status_code, stream.status_code) == (502, 502)
    assert "upstream_broken" in cut.text
    assert len(mirroring.shadow.requests) == sent


async def test_a_share_is_drawn_apart_from_the_choice_of_the_backend(mirroring: Mirroring) -> None:
    before = len(mirroring.gateway.mirror_lines())
    answers = [await mirroring.ask("two") for _ in range(120)]
    await mirroring.gateway.state.side(MirrorsSide).copies.wait_idle()

    copied = [line.backend for line in mirroring.gateway.mirror_lines()[before:]]
    chosen = [one.headers["x-gateway-backend"] for one in answers]
    assert 35 <= len(copied) <= 85
    for backend in ("a/m", "b/other"):
        assert 0.25 <= copied.count(backend) / chosen.count(backend) <= 0.75


async def test_copies_are_bounded_and_those_beyond_are_shed(mirroring: Mirroring) -> None:
    before = len(mirroring.gateway.mirror_lines())

    for _ in range(MAX_IN_FLIGHT + 3):
        await mirroring.ask("hangs")
    shed = [line.outcome for line in mirroring.gateway.mirror_lines()[before:]]
    await mirroring.gateway.state.side(MirrorsSide).copies.cancel()

    text = (await mirroring.gateway.state.processes.metrics_text())[0].decode()
    assert shed == ["shed"] * 3
    assert mirroring.gateway.state.runtime.in_flight == 0
    labels = 'backend="b/never",model="hangs",outcome="shed"'
    assert f"strowger_mirror_copies_total{{{labels}}} 3.0" in text


async def test_no_copy_is_sent_while_clients_need_what_there_is(mirroring: Mirroring) -> None:
    state, sent = mirroring.gateway.state, len(mirroring.shadow.requests)
    runtime = state.runtime
    for _ in range(50):
        state.admission.enter(runtime)
    try:
        line = await mirroring.line("all")
    finally:
        for _ in range(50):
            state.admission.leave(runtime)

    assert line.outcome == "shed"
    assert len(mirroring.shadow.requests) == sent


async def test_copies_say_nothing_about_the_backends_that_clients_meet(
    mirroring: Mirroring,
) -> None:
    for _ in range(12):
        await mirroring.line("fails")

    backends = mirroring.gateway.state.runtime.backends
    at = asyncio.get_running_loop().time()
    assert not backends["fails: b/error (mirror)"].breaker.is_available(at)
    assert (await mirroring.line("fails")).outcome == "shed"
    assert all(
        one.breaker.is_available(at) for name, one in backends.items() if "(mirror)" not in name
    )


async def test_agreement_is_counted_by_aspect(mirroring: Mirroring) -> None:
    await mirroring.line("all")

    text = (await mirroring.gateway.state.processes.metrics_text())[0].decode()
    labels = 'aspect="same_text",backend="b/works",model="all",same="yes"'
    assert f"strowger_mirror_compared_total{{{labels}}}" in text
    assert 'strowger_cost_usd_total{backend="b/works",model="all",role="mirror"}' in text


async def test_what_is_answered_during_a_drain_is_not_copied(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def slow(request: Received, answer: Answer) -> None:
        asked.set()
        await asyncio.sleep(0.1)
        await answers(request, answer)

    async with provider(slow) as both:
        config = f"""
providers:
  - {{name: a, adapter: openai, base_url: {both.base_url}, api_key: k}}
  - {{name: b, adapter: openai, base_url: {both.base_url}, api_key: k}}
{MODELS}"""
        async with serving(config, tmp_path) as gateway:
            one = Mirroring(gateway=gateway, real=both, shadow=both, records=Rows())
            under_way = asyncio.create_task(one.ask("all"))
            await asked.wait()
            gateway.state.admission.refuse()
            answer = await under_way
            await gateway.state.finished()

            assert answer.status_code == 200
            assert gateway.mirror_lines()[-1].outcome == "shed"
            assert len(both.requests) == 1


async def test_a_drain_waits_for_copies(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        if request.json["model"] == "works":
            await go_on.wait()
        await answers(request, answer)

    async with provider(waits) as both:
        config = f"""
providers:
  - {{name: a, adapter: openai, base_url: {both.base_url}, api_key: k}}
  - {{name: b, adapter: openai, base_url: {both.base_url}, api_key: k}}
{MODELS}"""
        async with serving(config, tmp_path) as gateway:
            one = Mirroring(gateway=gateway, real=both, shadow=both, records=Rows())
            await one.ask("all")
            gateway.state.admission.refuse()
            finished = asyncio.create_task(gateway.state.finished())
            await asyncio.wait({finished}, timeout=0.05)
            early = finished.done()
            go_on.set()
            await asyncio.wait_for(finished, 60)

            assert not early
            assert gateway.mirror_lines()[-1].outcome == "ok"
