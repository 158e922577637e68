"""The rows that requests leave: one each, and one for every attempt, however they ended."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.model import Price
from gateway.records.booking import attempt_row, attempts_of, booked, counted, line_of, rows_told
from gateway.records.frames import packed, unpacked
from gateway.records.rows import AttemptRow, Booked, Left, RequestRow, Row
from gateway.routing.part import NO_PART, Part
from gateway.routing.prices import Prices
from gateway.routing.trip import Attempt, Trip
from gateway.telemetry.access_log import AccessLine, as_json
from schemas.events import Usage
from tests.gateway.fault_scenarios import answers as fault_answers
from tests.gateway.fault_scenarios import cut_in_the_middle
from tests.gateway.fault_tasks import TOKENS
from tests.gateway.serving import Serving, one_model, serving
from tests.gateway.test_disconnects import hang_up_after
from tests.gateway.test_failures import internal_error, two_backends
from tests.provider import Answer, Received, provider

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
PRICES = "prices: [{match: 'a/*', input: 1, output: 10}, {match: 'b/*', input: 2, output: 20}]\n"


LINE = AccessLine(time=1.0, request_id="r", surface="openai", status=200, ms=1.0)


class Kept:
    """A recorder that keeps its rows, or says that it can keep no more."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.full = False

    def add(self, row: Left) -> None:
        self.extend((row,))

    def extend(self, rows: Iterable[Left]) -> None:
        self.rows += rows_told(rows)

    def requests(self, gateway: Serving) -> list[RequestRow]:
        gateway.state.write_books()
        return [row for row in self.rows if isinstance(row, RequestRow)]

    def attempts(self) -> list[AttemptRow]:
        return [row for row in self.rows if isinstance(row, AttemptRow)]


def left_of(trip: Trip, line: AccessLine, prices: Prices) -> Booked:
    """What a worker leaves of one request."""
    several = attempts_of(trip, line.time, prices) if len(line.attempts) > 1 else ()
    return booked([trip], as_json([line]), several)


async def post(gateway: Serving, **more: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        return await client.post("/v1/chat/completions", json={**HELLO, **more})


@pytest.mark.anyio
async def test_a_failed_attempt_has_a_row_beside_the_one_that_served(tmp_path: Path) -> None:
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
    assert {(row.role, row.outcome, row.source) for row in failed} == {
        ("failed", "upstream_failed", "")
    }
    assert (served.role, served.backend, served.source) == ("served", "b/m", "reported")
    assert served.cost_usd == request.cost_usd == pytest.approx((7 * 2 + 3 * 20) / 1e6)
    assert [row.number for row in kept.attempts()] == list(range(1, len(failed) + 2))


@pytest.mark.anyio
async def test_what_came_before_an_answer_broke_off_is_booked_with_that_attempt(
    tmp_path: Path,
) -> None:
    """MindIE is always asked for a stream, so this client never sees the token that was lost."""
    kept = Kept()
    async with provider(cut_in_the_middle) as a, provider(fault_answers) as b:
        config = two_backends(a.origin, b.origin).replace("adapter: openai", "adapter: mindie")
        async with serving(config, tmp_path, recorder=kept) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url) as client:
                answer = await client.post("/v1/models/chat/infer_token", json=TOKENS)
            (request,) = kept.requests(gateway)

    *failed, served = kept.attempts()
    assert (answer.status_code, request.completion_tokens) == (200, 2)
    assert {(row.backend, row.role, row.source) for row in failed} == {
        ("a/m", "failed", "estimated")
    }
    assert {row.completion_tokens for row in failed} == {1}
    assert (served.backend, served.role, served.completion_tokens) == ("b/m", "served", 2)


def test_what_a_failed_attempt_generated_is_booked_as_its_own() -> None:
    """It cost something, and the request's own tokens are those of the answer alone."""
    trip = Trip(request_id="r", started=0.0, attempts=[], task="chat")
    trip.attempts.append(Attempt(backend="a/m", outcome="upstream_broken"))
    trip.deltas, trip.usage = 40, Usage(prompt_tokens=7)
    trip.set_aside()
    trip.attempts.append(Attempt(backend="b/m", outcome="invalid_request", refused=True))
    trip.attempts.append(Attempt(backend="b/m", outcome="lost", role="hedge", deltas=2))
    trip.attempts.append(Attempt(backend="b/m", outcome="ok"))
    trip.usage = Usage(prompt_tokens=7, completion_tokens=3)
    prices = Prices((Price(match="a/m", input=1, output=10),))
    line = line_of(trip, 200, 1.0, 0.0, prices)

    _, failed, hedge, served = rows_told([left_of(trip, line, prices)])

    assert isinstance(failed, AttemptRow)
    assert isinstance(hedge, AttemptRow)
    assert isinstance(served, AttemptRow)
    assert [row.number for row in (failed, hedge, served)] == [1, 3, 4]
    assert [row.role for row in (failed, hedge, served)] == ["failed", "hedge", "served"]
    assert [row.source for row in (failed, hedge, served)] == ["estimated", "estimated", "reported"]
    assert [row.completion_tokens for row in (failed, hedge, served)] == [40, 2, 3]
    assert [row.prompt_tokens for row in (failed, hedge, served)] == [7, 7, 7]
    assert failed.cost_usd == pytest.approx((7 + 40 * 10) / 1e6)
    assert served.cost_usd is None


COUNTS = st.none() | st.integers(0, 2**40)
USAGES = st.none() | st.builds(
    Usage,
    prompt_tokens=COUNTS,
    completion_tokens=COUNTS,
    cached_tokens=COUNTS,
    cache_write_tokens=COUNTS,
    reasoning_tokens=COUNTS,
)
TRIPS = st.builds(
    Trip,
    request_id=st.just("r"),
    started=st.just(5.0),
    task=st.sampled_from(["chat", "completions", "embeddings", "tokens"]),
    backend=st.just("a/m"),
    usage=USAGES,
    deltas=st.integers(0, 9),
    prompt=st.none() | st.integers(1, 9),
    attempts=st.builds(
        Attempt,
        backend=st.just("a/m"),
        outcome=st.sampled_from(["ok", "cancelled", "upstream_broken"]),
        ms=st.floats(0, 1e6),
    ).map(lambda one: [one]),
)
LISTS = st.sampled_from(
    [
        Prices(()),
        Prices((Price(match="a/*", input=1, output=10),)),
        Prices((Price(match="b/*", input=1, output=1),)),
    ]
)


@given(TRIPS, LISTS)
def test_the_access_line_tells_all_of_a_request_with_one_attempt(
    trip: Trip, prices: Prices
) -> None:
    """The oracle is the attempt's row as it is made where there are several."""
    line = line_of(trip, 200, 6.5, 1e9, prices)
    usage, source = counted(trip.usage, trip.deltas, trip.task, trip.prompt)

    left = left_of(trip, line, prices)

    assert left.attempts == ()
    request, attempt = rows_told([left])
    assert isinstance(request, RequestRow)
    assert (request.time, request.ms, request.backend) == (1e9 + 6.5, 1500.0, "a/m")
    assert attempt == attempt_row("r", 1, line.time, trip.attempts[0], usage, source, prices)


PARTS = st.just(NO_PART) | st.builds(
    Part,
    experiment=st.just("trial"),
    epoch=st.integers(0, 9),
    variant=st.sampled_from(["", "control"]),
    unit=st.sampled_from(["", "5ee0", "a1b2"]),
    home=st.sampled_from(["", "a/m", "b/m"]),
)


@given(st.lists(st.tuples(TRIPS, PARTS, st.booleans()), min_size=1, max_size=9), LISTS)
def test_requests_that_were_booked_together_are_read_back_as_each_of_them_alone(
    requests: list[tuple[Trip, Part, bool]], prices: Prices
) -> None:
    for number, (trip, part, retried) in enumerate(requests):
        trip.request_id, trip.part = f"r{number}", part
        if retried:
            trip.attempts.insert(0, Attempt(backend="b/m", outcome="upstream_busy", ms=1.5))
    trips = [trip for trip, _, _ in requests]
    lines = [line_of(trip, 200, 6.5, 1e9, prices) for trip in trips]
    several = [
        row
        for trip, line, (_, _, retried) in zip(trips, lines, requests, strict=True)
        if retried
        for row in attempts_of(trip, line.time, prices)
    ]

    read = unpacked(packed([booked(trips, as_json(lines), several)]), limit=1)

    alone = [
        row
        for trip, line in zip(trips, lines, strict=True)
        for row in rows_told([left_of(trip, line, prices)])
    ]
    assert not read.damaged
    assert sorted(map(repr, read.rows)) == sorted(map(repr, alone))
    told = {row.request_id: row for row in read.rows if isinstance(row, RequestRow)}
    for trip, line in zip(trips, lines, strict=True):
        row = told[trip.request_id]
        assert (row.epoch, row.unit) == (trip.part.epoch, trip.part.unit)
        assert (row.variant, row.fallback) == (line.variant, line.fallback)


@pytest.mark.parametrize(
    "torn",
    [
        Booked(count=1, lines=b"no JSON\n"),
        Booked(count=1, lines=b'{"request_id":"r"}\n'),
        Booked(count=1, lines=b"\xff\n"),
        Booked(count=2, lines=as_json([LINE]), parts=((1, "a"), (1, "b"))),
    ],
    ids=["no JSON", "no access line", "no UTF-8", "a part too many"],
)
def test_lines_that_cannot_be_read_are_damage_and_take_no_earlier_frame_along(
    torn: Booked,
) -> None:
    whole = packed([Booked(count=1, lines=as_json([LINE]))])

    read = unpacked(whole + packed([torn]), limit=100)

    assert read.damaged
    assert read.size == len(whole)
    assert [type(row) for row in read.rows] == [RequestRow]


def test_what_a_failed_attempt_used_is_read_back_from_the_spool() -> None:
    """Whatever its vendor's own object was: a row that cannot be read would take others along."""
    trip = Trip(request_id="r", started=0.0, attempts=[], task="chat")
    trip.attempts.append(Attempt(backend="a/m", outcome="upstream_failed"))
    trip.usage = Usage(prompt_tokens=7, completion_tokens=2, raw=msgspec.Raw(b'{"cost": 0.1}'))
    trip.set_aside()
    trip.attempts.append(Attempt(backend="b/m", outcome="ok"))
    trip.usage = Usage(prompt_tokens=7, completion_tokens=3, raw=msgspec.Raw(b'{"cost": 0.2}'))
    left = left_of(trip, line_of(trip, 200, 1.0, 0.0, Prices(())), Prices(()))

    read = unpacked(packed([left]), limit=10)

    assert not read.damaged
    attempts = [row for row in read.rows if isinstance(row, AttemptRow)]
    assert [(row.backend, row.completion_tokens) for row in attempts] == [("a/m", 2), ("b/m", 3)]


def test_an_attempt_for_which_nothing_was_sent_leaves_no_row() -> None:
    trip = Trip(request_id="r", started=0.0, attempts=[], task="chat")
    trip.attempts.append(Attempt(backend="a/m", outcome="unsupported", refused=True))

    line = line_of(trip, 400, 1.0, 0.0, Prices(()))

    assert [type(row) for row in rows_told([left_of(trip, line, Prices(()))])] == [RequestRow]


@pytest.mark.anyio
async def test_a_hedge_costs_what_both_backends_were_sent(tmp_path: Path) -> None:
    """The loser is never heard; it had the same prompt, and is taken to charge for it."""

    async def never(request: Received, answer: Answer) -> None:
        await answer.gone.wait()

    kept = Kept()
    async with provider(never) as a, provider() as b:
        config = two_backends(a.base_url, b.base_url, "    hedge_after_s: 0.05\n")
        async with serving(config + PRICES, tmp_path, recorder=kept) as gateway:
            await post(gateway)
            (request,) = kept.requests(gateway)

    lost, served = kept.attempts()
    assert (lost.role, lost.outcome, lost.source) == ("hedge", "lost", "estimated")
    assert (lost.prompt_tokens, lost.completion_tokens) == (7, None)
    assert lost.cost_usd == pytest.approx(7 * 1 / 1e6)
    assert (served.role, served.source) == ("served", "reported")
    assert served.cost_usd == request.cost_usd == pytest.approx((7 * 2 + 3 * 20) / 1e6)


@pytest.mark.anyio
@pytest.mark.parametrize("fails", ["first", "hedge"])
async def test_of_two_at_once_the_one_that_fails_is_booked_with_what_it_tells(
    fails: str, tmp_path: Path
) -> None:
    async def gives_up(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.1)
        await answer.chat(finish="error")

    async def goes_on(request: Received, answer: Answer) -> None:
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
    assert (failed.source, failed.prompt_tokens, failed.completion_tokens) == ("reported", 7, 3)
    dear = 1 if fails == "first" else 2
    assert failed.cost_usd == pytest.approx(dear * (7 * 1 + 3 * 10) / 1e6)
    assert (served.role, served.source, served.completion_tokens) == ("served", "reported", 3)


@pytest.mark.anyio
async def test_a_client_that_leaves_is_booked_once_with_what_was_produced_and_what_it_cost(
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
    assert attempt.source == "estimated"
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
        assert "recorded" in json.loads(answer.text)["error"]["message"]


async def readiness(gateway: Serving) -> int:
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        return (await client.get("/readyz")).status_code


@pytest.mark.anyio
async def test_the_access_log_says_no_more_of_an_attempt_than_before(tmp_path: Path) -> None:
    async with provider() as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        await post(gateway)
        gateway.access_lines()
        (line,) = gateway.log.getvalue().splitlines()

    (attempt,) = json.loads(line)["attempts"]
    assert attempt.keys() == {"backend", "outcome", "ms"}
