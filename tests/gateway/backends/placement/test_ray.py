"""Engines on a Ray cluster with two nodes: killed under load, and as many as the load requires."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.backends.engines.link.fleets import Certificates
from tests.gateway.backends.placement.ray_package import installed
from tests.gateway.backends.placement.ray_pools import (
    CONFIG,
    Lines,
    Load,
    listed,
    placement_file,
    placing,
    started,
    tls_of,
    two_nodes,
    until,
)
from tests.gateway.cli.command_line import run
from tests.gateway.commanded import Commanded, commanded

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.nightly,
    pytest.mark.skipif(not installed(), reason="Ray is not installed: make nightly-ray does it"),
]


async def test_kill_9_of_an_engine_an_actor_and_a_node_fails_no_request(tmp_path: Path) -> None:
    """Those that had shown nothing are answered by the other engine; streams go on there."""
    certificates = Certificates(tmp_path)
    async with two_nodes(tmp_path) as nodes:
        file = placement_file(tmp_path, certificates, nodes.address, "{min: 2, max: 2}")
        async with placing(file) as placed:
            await placed.said("2 engines")
            config = CONFIG.format(tls=tls_of(certificates))
            async with commanded(tmp_path / "config.yaml", config) as up:
                load = Load(up, 8)
                for what in ("engine", "actor", "node"):
                    before, since = listed(tmp_path), len(up.lines)
                    await load.more(16)
                    begun, ended, continued = load.begun, len(load.answers), load.continued
                    processes = await nodes.kill(what)
                    await until(lambda before=before: len(listed(tmp_path) - before) == 1)
                    await until(lambda: len(listed(tmp_path)) == 2)
                    found = await up.said("2 replicas (added", since=since)
                    await up.said("is in effect", since=up.lines.index(found))
                    await load.more(16)
                    print(
                        f"{what}: {processes} processes killed; {load.begun - begun} requests "
                        f"begun, {len(load.answers) - ended} ended since, "
                        f"{load.continued - continued} continued, {len(load.failed)} failed"
                    )
                await load.stop()
                print(f"in total: {load.begun} requests, {load.continued} continued")

    assert load.failed == []
    assert len(load.answers) == load.begun
    assert load.continued > 0


async def test_replicas_grow_from_1_to_3_and_shrink_to_1_under_load_and_no_request_fails(
    tmp_path: Path,
) -> None:
    certificates = Certificates(tmp_path)
    replicas = "{min: 1, max: 3, requests_per_replica: 2, grow_after_s: 2, shrink_after_s: 5}"
    async with two_nodes(tmp_path) as nodes:
        file = placement_file(tmp_path, certificates, nodes.address, replicas)
        async with placing(file) as placed:
            await placed.said("1 engines")
            config = CONFIG.format(tls=tls_of(certificates))
            async with commanded(tmp_path / "config.yaml", config) as up:
                steady, burst = Load(up, 1), Load(up, 8)
                await until(lambda: len(listed(tmp_path)) == 3)
                await burst.more(48)
                shown = (await engines(up)).splitlines()
                await burst.stop()
                await until(lambda: len(listed(tmp_path)) == 1)
                await placed.said("is removed")
                await steady.more(16)
                await steady.stop()
                print(f"{burst.begun} and {steady.begun} requests; 1, 3, 1 replicas")

    assert steady.failed + burst.failed == []
    assert len([line for line in shown if line.startswith("pool@")]) == 3
    removed = [line for line in placed.lines if "is removed" in line]
    assert len(removed) >= 1


async def engines(up: Commanded) -> str:
    """The output of `strowger engines`."""
    words = ("engines", "--url", up.url, "--admin-key", "key-of-the-operator")
    return (await asyncio.to_thread(run, *words)).stdout


async def test_a_cluster_that_is_not_there_and_resources_that_no_node_has_are_named(
    tmp_path: Path,
) -> None:
    certificates = Certificates(tmp_path)
    nowhere = placement_file(tmp_path, certificates, "127.0.0.1:1")
    refused = Lines(await started("-m", "strowger_gateway.gateway.cli", "placement", str(nowhere)))

    await refused.said("ray.address: no cluster can be used at '127.0.0.1:1'")
    assert await refused.process.wait() == 1
    async with two_nodes(tmp_path) as nodes:
        file = placement_file(tmp_path, certificates, nodes.address, resource="NONE")
        async with placing(file) as placed:
            line = await placed.said("ray.resources: no node has {NONE: 1}")

    assert "the nodes have CPU, SLOT" in line
