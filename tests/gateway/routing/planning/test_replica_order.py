"""The order of replicas: each once, healthy ones first, by load or by key, and not all at once."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.policies import POLICIES, BackendStats
from strowger_gateway.gateway.routing.planning.replica_order import by_load, replica_order
from strowger_gateway.gateway.routing.resilience.recent_activity import Load
from strowger_gateway.gateway.routing.resilience.replica import Replica
from tests.gateway.routing.backends import backend_with

NOW = 1000.0
BALANCED = ("weighted", "in_order", "least_busy", "lowest_latency", "lowest_cost")


def replicas(name: str, *in_flight: int, weight: float = 1.0) -> list[Candidate]:
    """Replicas with so many requests in flight each."""
    found: list[Candidate] = []
    for number, count in enumerate(in_flight):
        backend = replace(
            backend_with(name, Supports()), replica=Replica(f"10.0.0.{number}:80"), load=Load()
        )
        backend.load.in_flight = count
        share = weight / len(in_flight)
        found.append(
            Candidate(backend=backend, breaker=backend.breaker, name=name, model="m", weight=share)
        )
    return found


def ordered(found: list[Candidate], policy: str, draw: float = 0.5, key: bytes = b"") -> list[int]:
    stats = [
        BackendStats(name=one.name, weight=one.weight, busy=one.backend.load.busy) for one in found
    ]
    return replica_order(found, stats, POLICIES[policy], draw, key, NOW)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8),
    st.lists(st.integers(0, 9), min_size=1, max_size=8),
    st.sampled_from(sorted(POLICIES)),
    st.floats(0, 1, exclude_max=True),
    st.binary(max_size=4),
    st.sets(st.integers(0, 15)),
)
def test_every_replica_is_there_once_and_impaired_ones_follow_healthy_ones_of_their_backend(
    one: list[int], two: list[int], policy: str, draw: float, key: bytes, failed: set[int]
) -> None:
    found = [*replicas("a/m", *one), *replicas("b/m", *two)]
    for place in failed & set(range(len(found))):
        for _ in range(20):
            found[place].breaker.fail(NOW, probe=False)

    order = ordered(found, policy, draw, key if POLICIES[policy].key else b"")

    assert sorted(order) == list(range(len(found)))
    for name in ("a/m", "b/m"):
        states = [found[place].breaker.open_until is None for place in order
                  if found[place].name == name]  # fmt: skip
        assert states == sorted(states, reverse=True)


def test_two_replicas_of_a_backend_precede_the_next_backend() -> None:
    found = [*replicas("a/m", 0, 0, 0, 0), *replicas("b/m", 0)]

    names = [found[place].name for place in ordered(found, "in_order")]

    assert names == ["a/m", "a/m", "b/m", "a/m", "a/m"]


@given(st.lists(st.integers(0, 50), min_size=2, max_size=64), st.sampled_from(BALANCED))
def test_the_least_loaded_replica_is_first_if_this_process_makes_the_load(
    in_flight: list[int], policy: str
) -> None:
    found = replicas("a/m", *in_flight)

    first = ordered(found, policy)[0]

    assert in_flight[first] == min(in_flight)


def test_equal_replicas_are_drawn_evenly() -> None:
    found = replicas("a/m", *[0] * 8)

    firsts = Counter(ordered(found, "weighted", (step + 0.5) / 800)[0] for step in range(800))

    assert set(firsts.values()) == {100}


def test_equal_replicas_of_several_backends_are_drawn_evenly() -> None:
    found = [*replicas("a/m", *[0] * 4), *replicas("b/m", *[0] * 4)]

    firsts = Counter(ordered(found, "weighted", (step + 0.5) / 800)[0] for step in range(800))

    assert max(firsts.values()) - min(firsts.values()) <= 4


@given(st.floats(0, 1, exclude_max=True))
def test_of_a_load_that_others_make_only_two_are_compared(draw: float) -> None:
    loads = [9.0, 9.0, 9.0, 0.0, 9.0, 9.0, 9.0, 9.0]

    order = by_load(loads, [1.0] * 8, [0] * 8, draw)

    assert sorted(order) == list(range(8))
    assert (order[0] == 3) or 3 not in order[:2]


def test_the_emptiest_of_many_is_chosen_by_a_quarter_and_not_by_all_gateways() -> None:
    loads = [9.0, 9.0, 9.0, 0.0, 9.0, 9.0, 9.0, 9.0]

    firsts = Counter(
        by_load(loads, [1.0] * 8, [0] * 8, (step + 0.5) / 5600)[0] for step in range(5600)
    )

    assert firsts[3] == 1400  # drawn first, or second of two: 1/8 + 7/8 * 1/7


def test_a_replica_that_has_just_come_gets_a_growing_share() -> None:
    replica = Replica("10.0.0.1:80", joined_at=NOW, slow_start_s=30)

    shares = [replica.share(NOW + age) for age in (0, 3, 15, 30, 1000)]

    assert shares == [0.1, 0.1, 0.5, 1.0, 1.0]


def test_a_single_reading_with_more_requests_than_ours_is_not_the_load_of_others() -> None:
    replica = Replica("10.0.0.1:80")

    for requests, busy in ((2, 2), (6, 0), (2, 2), (0, 0)):
        replica.note(requests, busy)
        assert replica.others == 0

    for _ in range(8):
        replica.note(6, 0)
    assert replica.others == pytest.approx(6, abs=0.1)

    replica.note(None, 0)
    assert replica.others == 0


def test_it_is_chosen_only_when_the_others_are_busier_than_its_share() -> None:
    found = replicas("a/m", 0, 4, 4)
    found[0].backend.replica.joined_at = NOW - 3  # type: ignore[union-attr]
    found[0].backend.replica.slow_start_s = 30  # type: ignore[union-attr]

    assert ordered(found, "least_busy")[0] != 0

    found[1].backend.load.in_flight = found[2].backend.load.in_flight = 10

    assert ordered(found, "least_busy")[0] == 0


@given(st.binary(min_size=1, max_size=8))
def test_a_key_stays_when_others_leave(key: bytes) -> None:
    found = replicas("a/m", *[0] * 8)
    first = found[ordered(found, "sticky", key=key)[0]]

    for gone in found:
        if gone is not first:
            rest = [one for one in found if one is not gone]
            assert rest[ordered(rest, "sticky", key=key)[0]] is first


def test_a_prefix_leaves_a_replica_that_has_more_than_its_share() -> None:
    found = replicas("a/m", 0, 0, 0, 0)
    first = ordered(found, "prefix_affinity", key=b"prompt")[0]
    found[first].backend.load.in_flight = 5

    assert ordered(found, "prefix_affinity", key=b"prompt")[0] != first
    assert ordered(found, "sticky", key=b"prompt")[0] == first
