"""Access lines as records: a batch is expanded to the rows of its requests, and to no others."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.prices import Price
from strowger_gateway.gateway.observability.recording.frames import unpacked
from strowger_gateway.gateway.observability.recording.rows_from_request import (
    access_line,
    attempt_row,
    attempts_of,
    expand_rows,
    request_batch,
)
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, as_json
from strowger_gateway.gateway.routing.attempt_usage import usage_of_attempts
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION, Participation
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestBatch, RequestRow
from strowger_gateway.schemas.events import Usage
from tests.gateway.observability.recording.written import packed

LINE = AccessLine(time=1.0, request_id="r", surface="openai", status=200, ms=1.0)


def left_of(record: RequestRecord, line: AccessLine, prices: Prices) -> RequestBatch:
    """Return the spool entry of one request."""
    several = attempts_of(record, line.time, prices) if len(line.attempts) > 1 else ()
    return request_batch([record], as_json([line]), several)


def test_what_a_failed_attempt_generated_is_recorded_as_its_own() -> None:
    """It cost something, and the request's own tokens are those of the answer alone."""
    record = RequestRecord(request_id="r", started=0.0, attempts=[], task="chat")
    record.attempts.append(AttemptRecord(backend="a/m", outcome="upstream_broken"))
    record.deltas, record.usage = 40, Usage(prompt_tokens=7)
    record.charge_failed_attempt()
    record.attempts.append(AttemptRecord(backend="b/m", outcome="invalid_request", refused=True))
    record.attempts.append(AttemptRecord(backend="b/m", outcome="lost", role="hedge", deltas=2))
    record.attempts.append(AttemptRecord(backend="b/m", outcome="ok"))
    record.usage = Usage(prompt_tokens=7, completion_tokens=3)
    prices = Prices((Price(match="a/m", input=1, output=10),))
    line = access_line(record, 200, 1.0, 0.0, prices)

    _, failed, hedge, served = expand_rows([left_of(record, line, prices)])

    assert isinstance(failed, AttemptRow)
    assert isinstance(hedge, AttemptRow)
    assert isinstance(served, AttemptRow)
    assert [row.number for row in (failed, hedge, served)] == [1, 3, 4]
    assert [row.role for row in (failed, hedge, served)] == ["failed", "hedge", "served"]
    assert [row.usage_source for row in (failed, hedge, served)] == [
        "estimated",
        "estimated",
        "reported",
    ]
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
    RequestRecord,
    request_id=st.just("r"),
    started=st.just(5.0),
    task=st.sampled_from(["chat", "completions", "embeddings", "tokens"]),
    backend=st.just("a/m"),
    usage=USAGES,
    deltas=st.integers(0, 9),
    estimated_prompt_tokens=st.none() | st.integers(1, 9),
    error=st.just("some_error"),
    attempts=st.builds(
        AttemptRecord,
        backend=st.just("a/m"),
        outcome=st.sampled_from(["ok", "cancelled", "upstream_broken"]),
        ms=st.floats(0, 1e6),
        unread=st.booleans(),
        share=st.sampled_from([1.0, 0.25, 3.0]),
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
def test_the_access_line_has_everything_of_a_request_with_one_attempt(
    record: RequestRecord, prices: Prices
) -> None:
    """The oracle is the attempt's row as it is made where there are several."""
    line = access_line(record, 200, 6.5, 1e9, prices)
    used = next(usage_of_attempts(record))

    left = left_of(record, line, prices)

    assert left.attempts == ()
    request, attempt = expand_rows([left])
    assert isinstance(request, RequestRow)
    assert (request.time, request.ms, request.backend) == (1e9 + 6.5, 1500.0, "a/m")
    assert attempt == attempt_row(
        "r", 1, line.time, record.attempts[0], used.usage, used.source, prices
    )


PARTS = st.just(NO_PARTICIPATION) | st.builds(
    Participation,
    experiment=st.just("trial"),
    epoch=st.integers(0, 9),
    variant=st.sampled_from(["", "control"]),
    unit=st.sampled_from(["", "5ee0", "a1b2"]),
    assigned_backend=st.sampled_from(["", "a/m", "b/m"]),
)


@given(st.lists(st.tuples(TRIPS, PARTS, st.booleans()), min_size=1, max_size=9), LISTS)
def test_requests_recorded_together_are_read_back_like_single_ones(
    requests: list[tuple[RequestRecord, Participation, bool]], prices: Prices
) -> None:
    for number, (record, part, retried) in enumerate(requests):
        record.request_id, record.participation = f"r{number}", part
        if retried:
            record.attempts.insert(0, AttemptRecord(backend="b/m", outcome="upstream_busy", ms=1.5))
    records = [record for record, _, _ in requests]
    lines = [access_line(record, 200, 6.5, 1e9, prices) for record in records]
    several = [
        row
        for record, line, (_, _, retried) in zip(records, lines, requests, strict=True)
        if retried
        for row in attempts_of(record, line.time, prices)
    ]

    read = unpacked(packed([request_batch(records, as_json(lines), several)]), limit=1)

    alone = [
        row
        for record, line in zip(records, lines, strict=True)
        for row in expand_rows([left_of(record, line, prices)])
    ]
    assert not read.damaged
    assert sorted(map(repr, read.rows)) == sorted(map(repr, alone))
    told = {row.request_id: row for row in read.rows if isinstance(row, RequestRow)}
    for record, line in zip(records, lines, strict=True):
        row = told[record.request_id]
        assert (row.epoch, row.unit) == (record.participation.epoch, record.participation.unit)
        assert (row.variant, row.fallback) == (line.variant, line.fallback)


@pytest.mark.parametrize(
    ("home", "answered", "fallback"),
    [("a/m", "b/m", True), ("a/m", "a/m", False), ("a/m", "", False), ("", "b/m", False)],
    ids=["by another", "by its own", "by nobody", "in no experiment"],
)
def test_a_fallback_is_an_answer_by_another_backend_than_the_variants(
    home: str, answered: str, fallback: bool
) -> None:
    record = RequestRecord(
        request_id="r",
        started=0.0,
        attempts=[],
        participation=Participation(assigned_backend=home),
        backend=answered,
    )

    line = access_line(record, 200, 1.0, 0.0, Prices(()))

    assert line.fallback == fallback


@pytest.mark.parametrize(
    "torn",
    [
        RequestBatch(count=1, lines=b"no JSON\n"),
        RequestBatch(count=1, lines=b'{"request_id":"r"}\n'),
        RequestBatch(count=1, lines=b"\xff\n"),
        RequestBatch(count=2, lines=as_json([LINE]), parts=((1, "a"), (1, "b"))),
    ],
    ids=["no JSON", "no access line", "no UTF-8", "a part too many"],
)
def test_lines_that_cannot_be_read_are_damage_and_take_no_earlier_frame_along(
    torn: RequestBatch,
) -> None:
    whole = packed([RequestBatch(count=1, lines=as_json([LINE]))])

    read = unpacked(whole + packed([torn]), limit=100)

    assert read.damaged
    assert read.size == len(whole)
    assert [type(row) for row in read.rows] == [RequestRow]


def test_what_a_failed_attempt_used_is_read_back_from_the_spool() -> None:
    """Whatever its vendor's own object was: a row that cannot be read would take others along."""
    record = RequestRecord(request_id="r", started=0.0, attempts=[], task="chat")
    record.attempts.append(AttemptRecord(backend="a/m", outcome="upstream_failed"))
    record.usage = Usage(prompt_tokens=7, completion_tokens=2, raw=msgspec.Raw(b'{"cost": 0.1}'))
    record.charge_failed_attempt()
    record.attempts.append(AttemptRecord(backend="b/m", outcome="ok"))
    record.usage = Usage(prompt_tokens=7, completion_tokens=3, raw=msgspec.Raw(b'{"cost": 0.2}'))
    left = left_of(record, access_line(record, 200, 1.0, 0.0, Prices(())), Prices(()))

    read = unpacked(packed([left]), limit=10)

    assert not read.damaged
    attempts = [row for row in read.rows if isinstance(row, AttemptRow)]
    assert [(row.backend, row.completion_tokens) for row in attempts] == [("a/m", 2), ("b/m", 3)]


def test_an_attempt_for_which_nothing_was_sent_leaves_no_row() -> None:
    record = RequestRecord(request_id="r", started=0.0, attempts=[], task="chat")
    record.attempts.append(AttemptRecord(backend="a/m", outcome="unsupported", refused=True))

    line = access_line(record, 400, 1.0, 0.0, Prices(()))

    assert [type(row) for row in expand_rows([left_of(record, line, Prices(()))])] == [RequestRow]
