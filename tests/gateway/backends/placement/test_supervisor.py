"""Replicas come, go and are replaced; the file always has engines that answer."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.backends.placement.scaler import EngineLoad
from tests.gateway.backends.placement.stand_in_cluster import IDLE, Placing, StandInCluster

pytestmark = pytest.mark.anyio

BUSY = EngineLoad(running=40, waiting=0)


async def test_replicas_are_placed_on_different_nodes_and_listed(tmp_path: Path) -> None:
    """Also where one node has far more room than the other."""
    cluster = StandInCluster(large=8, small=2)
    placing = Placing(tmp_path, cluster, min=4, max=4)

    await placing.seconds(12)

    assert Counter(one.node for one in cluster.ready) == {"large": 2, "small": 2}
    assert placing.listed == set(cluster.loads)


async def test_a_full_node_does_not_keep_a_replica_from_starting_on_another(
    tmp_path: Path,
) -> None:
    cluster = StandInCluster(large=8, full=0)
    placing = Placing(tmp_path, cluster, min=3, max=3)

    await placing.seconds(40)

    assert Counter(one.node for one in cluster.ready) == {"large": 3}


async def test_strict_spread_never_shares_a_node(tmp_path: Path) -> None:
    cluster = StandInCluster(a=4, b=4)
    placing = Placing(tmp_path, cluster, strategy="STRICT_SPREAD", min=3, max=3)

    await placing.seconds(40)
    cluster.slots["c"] = 4
    await placing.seconds(20)

    assert Counter(one.node for one in cluster.ready) == {"a": 1, "b": 1, "c": 1}


async def test_pack_uses_few_nodes(tmp_path: Path) -> None:
    cluster = StandInCluster(a=3, b=3)
    placing = Placing(tmp_path, cluster, strategy="PACK", min=4, max=4)

    await placing.seconds(40)

    assert sorted(Counter(one.node for one in cluster.ready).values()) == [1, 3]


async def test_a_lost_replica_is_replaced_and_its_address_leaves_the_file(tmp_path: Path) -> None:
    cluster = StandInCluster(a=2, b=2)
    placing = Placing(tmp_path, cluster, min=2, max=2)
    await placing.seconds(6)
    lost = cluster.ready[0]
    assert lost.report is not None

    cluster.kill(lost.name)
    await placing.seconds(1)
    soon = placing.listed
    await placing.seconds(8)

    assert lost.report.address not in soon
    assert len(soon) == 1
    assert lost.name in cluster.removed
    assert len(placing.listed) == 2


async def test_the_number_follows_the_load_and_a_replica_is_unlisted_before_it_ends(
    tmp_path: Path,
) -> None:
    cluster = StandInCluster(a=4, b=4)
    placing = Placing(tmp_path, cluster, min=1, max=3)
    await placing.seconds(4)
    assert len(cluster.ready) == 1

    cluster.use(BUSY)
    await placing.seconds(20)
    assert len(cluster.ready) == 3
    cluster.use(IDLE)
    while len(placing.listed) == 3:
        await placing.seconds(1)
    assert cluster.ended == []
    await placing.seconds(6)
    assert len(cluster.ended) == 1
    await placing.seconds(700)

    assert len(cluster.ready) == len(placing.listed) == 1
    assert Counter(cluster.ended) == Counter(cluster.removed)


async def test_the_next_process_takes_the_replicas_over(tmp_path: Path) -> None:
    cluster = StandInCluster(a=2, b=2)
    placing = Placing(tmp_path, cluster, min=2, max=2)
    await placing.seconds(6)
    before = [one.name for one in cluster.ready]

    placing.restart()
    await placing.seconds(6)

    assert [one.name for one in cluster.ready] == before


async def test_other_settings_replace_the_engines_one_at_a_time(tmp_path: Path) -> None:
    cluster = StandInCluster(a=1, b=1)
    placing = Placing(tmp_path, cluster, min=2, max=2)
    await placing.seconds(6)
    before = {one.name for one in cluster.ready}

    placing.settings = replace(
        placing.settings, engine=replace(placing.settings.engine, max_sequences=8)
    )
    placing.restart()
    fewest = 2
    for _ in range(120):
        await placing.seconds(1)
        fewest = min(fewest, len(placing.listed))

    assert fewest == 1
    assert len(cluster.ready) == len(placing.listed) == 2
    assert before == set(cluster.ended)


async def test_the_addresses_stay_while_the_cluster_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = StandInCluster(a=2, b=2)
    placing = Placing(tmp_path, cluster, min=2, max=2)
    await placing.seconds(6)
    before = placing.listed

    cluster.away = True
    await placing.seconds(20)

    assert placing.listed == before
    assert caplog.text.count("it is away") == 1


async def test_an_engine_that_answers_stays_listed_while_its_keeper_does_not(
    tmp_path: Path,
) -> None:
    cluster = StandInCluster(a=2, b=2)
    placing = Placing(tmp_path, cluster, min=2, max=2)
    await placing.seconds(6)
    before = placing.listed

    for name, one in cluster.placed.items():
        cluster.placed[name] = replace(one, report=None)
    await placing.seconds(5)
    stayed = placing.listed
    cluster.loads.clear()
    await placing.seconds(1)

    assert stayed == before
    assert placing.listed == set()


async def test_an_engine_that_cannot_be_reached_is_not_listed_and_the_reason_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = StandInCluster(a=1)
    placing = Placing(tmp_path, cluster, min=1, max=1)
    await placing.seconds(1)
    await placing.supervisor.tick()
    (address,) = cluster.loads
    (tmp_path / "engines.json").unlink()
    placing.restart()
    cluster.loads.clear()
    cluster.faults[address] = "the certificate has expired"
    await placing.seconds(3)

    assert placing.listed == set()
    assert caplog.text.count("is not listed: the certificate has expired") == 1


async def test_resources_that_no_node_has_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    placing = Placing(tmp_path, StandInCluster(), min=1, max=1)

    await placing.seconds(20)

    assert caplog.text.count("ray.resources: no node has {NPU: 1}") == 1


async def test_all_replicas_end_on_request(tmp_path: Path) -> None:
    cluster = StandInCluster(a=2, b=2)
    placing = Placing(tmp_path, cluster, min=2, max=2)
    await placing.seconds(6)

    async with asyncio.timeout(60):
        await placing.supervisor.end_all(every_s=0.0)

    assert cluster.placed == {}
    assert placing.listed == set()
