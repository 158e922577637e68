"""The moving average of a backend's latency."""

import math

from strowger_gateway.gateway.routing.resilience.recent_activity import (
    OFTEN_S,
    TAU_S,
    Load,
    PeakAverage,
)


def test_a_slow_answer_counts_immediately_and_fast_ones_slowly() -> None:
    average = PeakAverage()

    average.add(1.0, now=0.0)
    average.add(5.0, now=1.0)
    after_the_peak = average.at(1.0)
    average.add(1.0, now=2.0)

    assert after_the_peak == 5.0
    assert 4.0 < (average.at(2.0) or 0.0) < 5.0


def test_the_latency_of_an_idle_backend_decreases_with_time() -> None:
    average = PeakAverage()
    average.add(2.0, now=0.0)

    assert average.at(TAU_S) == 2.0 / math.e
    assert (average.at(20 * TAU_S) or 0.0) < 1e-6


def test_of_answers_within_a_millisecond_the_worst_counts_and_the_others_do_not() -> None:
    average = PeakAverage()
    average.add(1.0, now=0.0)

    for _ in range(1000):
        average.add(0.1, now=OFTEN_S / 2)
    believed = average.at(0.0)
    average.add(2.0, now=OFTEN_S / 2)

    assert believed == 1.0
    assert average.at(OFTEN_S / 2) == 2.0


def test_streams_and_whole_answers_are_timed_separately_and_replace_each_other() -> None:
    load = Load()

    unknown = load.latency(0.0, stream=True)
    load.answer.add(3.0, now=0.0)
    borrowed = load.latency(0.0, stream=True)
    load.first_content.add(0.2, now=0.0)

    assert unknown is None
    assert borrowed == 3.0
    assert load.latency(0.0, stream=True) == 0.2
    assert load.latency(0.0, stream=False) == 3.0


def test_displayed_latencies_do_not_sink_while_idle() -> None:
    average = PeakAverage()

    average.add(0.2, 0.0)

    assert average.measured == 0.2
    assert (average.at(10 * TAU_S) or 0.0) < 0.001
