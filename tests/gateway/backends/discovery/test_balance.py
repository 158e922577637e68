"""How evenly replicas get requests: with load of other gateways, a slow replica, and a new one."""

from collections import Counter

import pytest

from tests.gateway.backends.discovery.simulated import Server, World


def servers(count: int) -> list[Server]:
    return [Server(f"10.0.0.{number}:80") for number in range(count)]


def share_of(server: Server, counts: Counter[str]) -> float:
    """Its requests, as a part of the mean of the others."""
    others = [count for address, count in counts.items() if address != server.address]
    return counts[server.address] * len(others) / sum(others)


@pytest.mark.parametrize(
    ("gateways", "load"),
    [(1, 0.1), *(pytest.param(*one, marks=pytest.mark.nightly) for one in ((1, 0.5), (4, 0.5)))],
)
def test_16_equal_replicas_get_the_same_number_of_requests_within_5_percent(
    gateways: int, load: float
) -> None:
    world = World(servers(16), gateways=gateways, load=load, seed=1)
    world.requests(500)

    counts = world.requests(60_000)

    mean = counts.total() / 16
    assert len(counts) == 16
    assert max(abs(count - mean) for count in counts.values()) <= 0.05 * mean


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 9))
def test_so_do_they_when_four_gateways_keep_them_busy(seed: int) -> None:
    world = World(servers(16), gateways=4, load=0.9, seed=seed)
    world.requests(1000)

    counts = world.requests(240_000)

    mean = counts.total() / 16
    assert max(abs(count - mean) for count in counts.values()) <= 0.05 * mean


def test_a_replica_that_is_four_times_slower_gets_about_a_quarter() -> None:
    slow = Server("10.0.1.0:80", slowness=4.0)
    world = World([*servers(15), slow], gateways=4, load=0.5, seed=1)
    world.requests(2000)

    assert 0.15 <= share_of(slow, world.requests(12_000)) <= 0.4


def test_a_replica_that_joins_reaches_its_share_slowly_and_loses_it_when_it_leaves() -> None:
    new = Server("10.0.1.0:80")
    world = World(servers(15), gateways=4, load=0.5, seed=1)
    world.requests(500)

    world.join(new, slow_start_s=30.0)
    assert share_of(new, world.seconds(15.0)) < 0.5
    world.seconds(30.0)
    assert 0.85 <= share_of(new, world.seconds(60.0)) <= 1.15

    world.leave(new)
    assert new.address not in world.seconds(10.0)
