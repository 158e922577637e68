"""Policies are pure functions, so their tests are arithmetic."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.routing.planning.policies import POLICIES, BackendStats

WEIGHTS = st.lists(st.integers(0, 100), min_size=1, max_size=6)
DRAWS = st.floats(0, 1, exclude_max=True)
MAYBE = st.none() | st.floats(0, 1e3)


@st.composite
def backend_stats(draw: st.DrawFn) -> list[BackendStats]:
    """Backends of every kind: idle, overloaded, never measured, without a price."""
    weights = draw(WEIGHTS)
    return [
        BackendStats(
            name=f"b{index}",
            weight=weight,
            busy=draw(st.integers(0, 50)),
            latency_s=draw(MAYBE),
            cost_usd=draw(MAYBE),
        )
        for index, weight in enumerate(weights)
    ]


def order(
    name: str, backends: Sequence[BackendStats], draw: float = 0.0, key: bytes = b""
) -> list[int]:
    return POLICIES[name].order(backends, draw, key)


def weighted(weights: Sequence[float], draw: float) -> list[int]:
    return order("weighted", [BackendStats(name="b", weight=one) for one in weights], draw)


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(backends=backend_stats(), draw=DRAWS, key=st.binary(max_size=4))
def test_every_policy_returns_each_backend_once(
    name: str, backends: list[BackendStats], draw: float, key: bytes
) -> None:
    assert sorted(order(name, backends, draw, key)) == list(range(len(backends)))


@pytest.mark.parametrize("name", sorted({*POLICIES} - {"in_order"}))
@given(backends=backend_stats(), draw=DRAWS, key=st.binary(max_size=4))
def test_a_backend_of_weight_zero_comes_after_all_that_have_weight(
    name: str, backends: list[BackendStats], draw: float, key: bytes
) -> None:
    weights = [backends[index].weight for index in order(name, backends, draw, key)]

    assert [one > 0 for one in weights] == sorted((one > 0 for one in weights), reverse=True)


def test_in_order_ignores_weights_and_draw() -> None:
    backends = [BackendStats(name="b", weight=weight) for weight in (0, 5, 1)]

    assert order("in_order", backends, 0.99) == [0, 1, 2]


def test_the_first_choice_has_exactly_its_weight_share_of_evenly_spaced_draws() -> None:
    draws = [Fraction(step, 1000) for step in range(1000)]

    firsts = Counter(weighted([90, 10], float(draw))[0] for draw in draws)

    assert firsts == {0: 900, 1: 100}


def test_the_second_choice_follows_the_weights_of_those_left() -> None:
    draws = [(step + 0.5) / 60_000 for step in range(60_000)]

    pairs = Counter(tuple(weighted([1, 2, 3], draw)[:2]) for draw in draws)

    assert pairs[(2, 1)] == pytest.approx(60_000 * (3 / 6) * (2 / 3), abs=2)
    assert pairs[(0, 2)] == pytest.approx(60_000 * (1 / 6) * (3 / 5), abs=2)


def test_a_draw_just_below_one_still_chooses_a_backend() -> None:
    assert weighted([0.1] * 3, 1 - 2**-53)[0] == 2


def test_the_least_busy_for_its_weight_is_first() -> None:
    backends = [
        BackendStats(name="small", weight=1, busy=2),
        BackendStats(name="large", weight=10, busy=10),
        BackendStats(name="full", weight=1, busy=5),
    ]

    assert order("least_busy", backends, 0.99) == [1, 0, 2]


def test_equally_busy_backends_share_by_the_draw() -> None:
    backends = [BackendStats(name="a"), BackendStats(name="b")]

    assert [order("least_busy", backends, draw)[0] for draw in (0.1, 0.9)] == [0, 1]


def test_of_two_drawn_the_one_with_less_latency_times_queue_is_first() -> None:
    slow = BackendStats(name="slow", latency_s=2.0)
    fast = BackendStats(name="fast", latency_s=0.5)
    overloaded = BackendStats(name="overloaded", latency_s=0.5, busy=9)

    assert order("lowest_latency", [slow, fast], 0.0) == [1, 0]
    assert order("lowest_latency", [slow, overloaded], 0.0) == [0, 1]


def test_the_fastest_of_many_backends_does_not_get_all_requests() -> None:
    backends = [BackendStats(name=f"b{index}", latency_s=1.0 + index) for index in range(4)]
    draws = [(step + 0.5) / 12_000 for step in range(12_000)]

    firsts = Counter(order("lowest_latency", backends, draw)[0] for draw in draws)

    assert firsts[0] == pytest.approx(6_000, rel=0.01), "half of the pairs contain it"
    assert firsts[3] == 0, "the slowest of four is never the better of two"


def test_a_backend_that_was_never_measured_is_measured_next() -> None:
    backends = [BackendStats(name="known", latency_s=0.1), BackendStats(name="new")]

    assert order("lowest_latency", backends, 0.0)[0] == 1


def test_the_cheapest_is_first_and_backends_without_a_price_are_last() -> None:
    backends = [
        BackendStats(name="unknown"),
        BackendStats(name="dear", cost_usd=0.02),
        BackendStats(name="cheap", cost_usd=0.001),
    ]

    assert order("lowest_cost", backends, 0.7) == [2, 1, 0]


@given(key=st.binary(min_size=1, max_size=8), draws=st.lists(DRAWS, min_size=2, max_size=4))
def test_a_key_has_the_same_backend_for_any_draw(key: bytes, draws: list[float]) -> None:
    backends = [BackendStats(name=name) for name in ("a/m", "b/m", "c/m")]

    assert len({tuple(order("sticky", backends, draw, key)) for draw in draws}) == 1


@given(key=st.binary(min_size=1, max_size=8), weights=st.lists(st.floats(0.1, 9), min_size=3))
def test_if_a_backend_is_removed_only_its_own_keys_move(key: bytes, weights: list[float]) -> None:
    backends = [BackendStats(name=f"b{i}", weight=weight) for i, weight in enumerate(weights)]

    before = [backends[index].name for index in order("sticky", backends, key=key)]
    others = [one for one in backends if one.name != before[0]]
    after = [others[index].name for index in order("sticky", others, key=key)]

    assert after == before[1:]


def test_keys_are_spread_by_weight() -> None:
    backends = [BackendStats(name="a", weight=3), BackendStats(name="b", weight=1)]

    firsts = Counter(order("sticky", backends, key=b"%d" % user)[0] for user in range(8_000))

    assert firsts[0] == pytest.approx(6_000, abs=3 * 38.8)


def test_without_a_key_sticky_draws_by_weight() -> None:
    backends = [BackendStats(name="a", weight=1), BackendStats(name="b", weight=1)]

    assert [order("sticky", backends, draw)[0] for draw in (0.1, 0.9)] == [0, 1]


def test_a_prompt_with_a_cached_prefix_goes_there_until_that_is_overloaded() -> None:
    idle = [BackendStats(name=f"b{index}") for index in range(3)]
    home = order("prefix_affinity", idle, key=b"prefix")[0]

    loaded = [BackendStats(name=one.name, busy=4 if i == home else 3) for i, one in enumerate(idle)]
    full = [BackendStats(name=one.name, busy=5 if i == home else 3) for i, one in enumerate(idle)]
    overloaded = [
        BackendStats(name=one.name, busy=9 if i == home else 1) for i, one in enumerate(idle)
    ]

    assert order("prefix_affinity", loaded, key=b"prefix")[0] == home
    assert order("prefix_affinity", full, key=b"prefix")[0] != home
    assert order("prefix_affinity", overloaded, key=b"prefix")[0] != home
