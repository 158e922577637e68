"""What attempts cost: every prompt that was read, each once, the same in limits and in records."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.governance.limits.estimate import tokens_used
from strowger_gateway.gateway.observability.recording.rows_from_request import (
    access_line,
    attempts_of,
    is_complete,
)
from strowger_gateway.gateway.routing.attempt_usage import usage_of_attempts
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.schemas.events import Usage

COUNTS = st.none() | st.integers(0, 2**31 - 1)
USAGES = st.none() | st.builds(Usage, prompt_tokens=COUNTS, completion_tokens=COUNTS)
ATTEMPTS = st.builds(
    AttemptRecord,
    backend=st.sampled_from(["a/m", "b/m"]),
    outcome=st.sampled_from(["ok", "cancelled", "lost", "upstream_broken", "upstream_timeout"]),
    role=st.sampled_from(["", "", "hedge"]),
    refused=st.booleans(),
    unread=st.booleans(),
    continued=st.booleans(),
    share=st.sampled_from([1.0, 1.0, 0.25, 3.0]),
    deltas=st.integers(0, 9),
    usage=USAGES,
    late=st.integers(0, 2),
)
RECORDS = st.builds(
    RequestRecord,
    request_id=st.just("r"),
    started=st.just(5.0),
    task=st.sampled_from(["chat", "embeddings", "tokens"]),
    backend=st.just("a/m"),
    usage=USAGES,
    deltas=st.integers(0, 9),
    estimated_prompt_tokens=st.integers(1, 1000),
    usage_at=st.integers(0, 9),
    error=st.just("some_error"),
    attempts=st.lists(ATTEMPTS, max_size=4),
)


def tokens(prompt: int | None, completion: int | None) -> int:
    return (prompt or 0) + (completion or 0)


@given(RECORDS)
def test_each_attempt_costs_once_and_never_less_than_what_a_model_has_read(
    record: RequestRecord,
) -> None:
    found = {one.place: one for one in usage_of_attempts(record)}

    sent = [place for place, one in enumerate(record.attempts) if not one.refused]
    assert sorted(found) == sent
    own = max((place for place in sent if not record.attempts[place].role), default=-1)
    for place, one in found.items():
        attempt = record.attempts[place]
        usage = record.usage if place == own else attempt.usage
        deltas = record.deltas if place == own else attempt.deltas
        counted = tokens(one.usage.prompt_tokens, one.usage.completion_tokens)
        if usage is not None and usage.prompt_tokens is not None:
            assert one.usage.prompt_tokens == usage.prompt_tokens
        elif not attempt.unread or deltas:
            assert one.source == "estimated"
            known = None if place == own or record.usage is None else record.usage.prompt_tokens
            if known is None:
                assert record.estimated_prompt_tokens is not None
                least = ceil(record.estimated_prompt_tokens * attempt.share)
                assert (one.usage.prompt_tokens or 0) >= least
        if usage is not None and usage.completion_tokens is not None and attempt.outcome != "ok":
            late = max(0, record.deltas - record.usage_at) if place == own else attempt.late
            assert one.usage.completion_tokens == usage.completion_tokens + late
        if usage is None and attempt.unread and not deltas:
            assert (counted, one.source) == (0, "")
        assert bool(one.source) or counted == 0


@given(RECORDS)
def test_limits_count_what_the_records_say(record: RequestRecord) -> None:
    line = access_line(record, 200, 6.5, 1e9, Prices(()))
    if is_complete(line):
        in_records = tokens(line.prompt_tokens, line.completion_tokens)
    else:
        rows = list(attempts_of(record, line.time, Prices(())))
        in_records = sum(tokens(row.prompt_tokens, row.completion_tokens) for row in rows)

    assert tokens_used(record) == in_records
