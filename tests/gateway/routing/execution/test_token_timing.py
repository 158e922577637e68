"""Tokens have the time that the backend reports, or else the time between arrivals."""

from strowger_gateway.gateway.routing.execution.token_timing import Intervals
from strowger_gateway.schemas.events import Event, Finished, Started, Tokens, Usage


def times(events: list[Event]) -> list[float]:
    return [event.elapsed_ms for event in events if isinstance(event, Tokens)]


def test_without_reported_times_tokens_get_the_time_between_arrivals() -> None:
    intervals = Intervals(began=10.0)

    first = intervals.timed([Started(), Tokens(ids=(1,))], 10.5)
    second = intervals.timed([Tokens(ids=(2,)), Finished(reason="stop"), Usage()], 10.75)

    assert (times(first), times(second)) == ([500.0], [250.0])
    assert [type(event) for event in second] == [Tokens, Finished, Usage]


def test_tokens_that_arrive_together_share_one_time() -> None:
    intervals = Intervals(began=0.0)

    events = intervals.timed([Tokens(ids=(1,)), Tokens(ids=(2,)), Tokens(ids=(3,))], 1.0)

    assert times(events) == [1000.0, 0.0, 0.0]


def test_times_that_a_backend_reports_are_not_replaced() -> None:
    intervals = Intervals(began=0.0)
    batches: list[list[Event]] = [
        [Tokens(ids=(1,), elapsed_ms=3.0), Tokens(ids=(2,), elapsed_ms=0.0)],
        [Tokens(ids=(3,), elapsed_ms=0.0)],
    ]

    timed = [intervals.timed(batch, float(index + 1)) for index, batch in enumerate(batches)]

    assert timed == batches
