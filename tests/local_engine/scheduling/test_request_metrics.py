"""The counters and timings of a model's answers, on the test's clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.local_engine.protocol.stats import BOUNDS, NO_FOOTPRINT, Histogram
from strowger_gateway.local_engine.scheduling.block_pool import BlockPool
from strowger_gateway.local_engine.scheduling.request_metrics import RequestMetrics, Tally
from strowger_gateway.local_engine.scheduling.scheduler import Scheduler
from strowger_gateway.local_engine.scheduling.sequence import Sequence, new_sequence
from strowger_gateway.local_engine.scheduling.steps import SchedulerLimits
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.execution.lane_runs import Runs, hosted


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def sequence(id: int, *, arrival: float = 100.0, cached: int = -1) -> Sequence:
    made = new_sequence(id=id, prompt=[1] * 10, max_total=50, arrival=arrival)
    made.cached = cached
    return made


def only(histogram: Histogram) -> float:
    """Return the only observation."""
    assert histogram.count == 1
    return histogram.sum


def test_an_answers_times_are_those_between_its_events() -> None:
    clock = Clock()
    meter, one = RequestMetrics(clock), sequence(1, cached=4)
    meter.arrived(one)

    clock.now = 100.5
    meter.began([one])
    meter.drew(one, 1, 101.5)
    meter.began([one])
    meter.drew(one, 1, 101.75)
    meter.ended(1, "length")

    assert only(meter.queue_time.histogram()) == pytest.approx(0.5)
    assert only(meter.time_to_first_token.histogram()) == pytest.approx(1.5)
    assert only(meter.time_between_tokens.histogram()) == pytest.approx(0.25)
    assert (meter.num_input_tokens, meter.cached_tokens, meter.num_output_tokens) == (10, 4, 2)
    assert meter.finished == {"length": 1}


def test_tokens_of_one_step_share_its_time() -> None:
    meter, one = RequestMetrics(Clock()), sequence(1)
    meter.arrived(one)
    meter.drew(one, 1, 101.0)

    meter.drew(one, 4, 102.0)

    between = meter.time_between_tokens.histogram()
    assert between.count == 4
    assert between.sum == pytest.approx(1.0)
    assert between.quantile(1.0) == 0.25


def test_the_first_outcome_counts_and_an_ended_answer_is_forgotten() -> None:
    meter, one = RequestMetrics(Clock()), sequence(1)
    meter.arrived(one)

    meter.ended(1, "eos_token")
    meter.ended(1, "cancelled")

    assert meter.finished == {"eos_token": 1}
    assert meter.timing(1) is None


def test_accepted_drafts_are_counted_separately() -> None:
    meter = RequestMetrics(Clock())

    meter.drafted(4, 3)
    meter.drafted(4, 1)

    assert (meter.total_draft_tokens, meter.total_accepted_draft_tokens) == (8, 4)


@given(st.lists(st.floats(0, 200), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_of_its_observation(seconds: list[float], share: float) -> None:
    tally = Tally()
    for one in seconds:
        tally.add(one)
    exact = sorted(seconds)[max(0, -int(-share * len(seconds) // 1) - 1)]

    estimate = tally.histogram().quantile(share)

    assert estimate is not None
    above = [bound for bound in BOUNDS if exact <= bound]
    assert estimate <= (above[0] if above else BOUNDS[-1])
    below = [bound for bound in BOUNDS if bound < exact]
    assert estimate >= (below[-1] if below else 0.0)


def test_a_lane_counts_the_tokens_pages_and_outcomes_of_its_answers(folder: Folder) -> None:
    lane = hosted(folder("llama")).lane
    assert lane.stats().steps == 0, "the warm-up does not count"
    runs = Runs(lane)
    greedy = Sampling(temperature=0.0, max_tokens=4, ignore_eos=True)
    runs.add([7] * 40, greedy)
    runs.finish()
    runs.add([7] * 40, greedy)
    cancelled = runs.add([9] * 5, greedy)
    runs.step()

    lane.drop(cancelled)
    runs.finish()

    stats = lane.stats()
    assert stats.num_input_tokens == 40 + 40 + 5
    assert stats.num_output_tokens == 4 + 4 + 1
    assert stats.cached_tokens == 32
    assert stats.prefix_hit_rate == pytest.approx(32 / 85)
    assert stats.kv_cache_reused_blocks == 2
    assert stats.kv_cache_alloc_new_blocks == 3 + 1 + 1
    assert stats.kv_cache_alloc_total_blocks == 7
    assert stats.computed_tokens == 40 + 3 + 8 + 3 + 5
    assert stats.finished == {"length": 2, "cancelled": 1}
    assert stats.step_time.count == stats.steps == 8
    assert stats.weights_bytes > 0
    assert stats.cache_bytes > 0
    assert stats.cache_used_share == 0


def test_before_any_request_every_share_is_zero() -> None:
    limits = SchedulerLimits(max_step_tokens=1, max_sequences=1, max_seq_len=1)
    idle = Scheduler(limits, BlockPool(0, 16))

    stats = RequestMetrics(Clock()).stats(idle, NO_FOOTPRINT)

    assert stats.cache_used_share == stats.prefix_hit_rate == stats.acceptance_rate == 0.0
    assert stats.time_to_first_token.quantile(0.5) is None
