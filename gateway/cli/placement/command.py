"""`strowger placement`: the process that has Ray's driver, so that gateways need none."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import click

from strowger_gateway.gateway.backends.placement.cluster import ClusterFailed
from strowger_gateway.gateway.backends.placement.gauges import Gauges
from strowger_gateway.gateway.backends.placement.load import load_placement
from strowger_gateway.gateway.backends.placement.metrics import PlacementMetrics
from strowger_gateway.gateway.backends.placement.on_ray.library import ray_library
from strowger_gateway.gateway.backends.placement.on_ray.pool import RayPool
from strowger_gateway.gateway.backends.placement.settings import Placement
from strowger_gateway.gateway.backends.placement.supervisor import Supervisor
from strowger_gateway.gateway.cli.config_loading import faults_shown
from strowger_gateway.schemas.errors import InvalidConfig


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--end", is_flag=True, help="End all engines of the pool when their answers finish.")
def placement(file: Path, end: bool) -> None:
    """Run engines in a Ray cluster, as many as the load requires, until SIGTERM or Ctrl-C.

    FILE names the engines, their number, and the file that gateways have in
    `engines.discover.file`. The engines outlive this process; --end ends them.
    """
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    with faults_shown():
        settings = load_placement(file, os.environ)
        cluster = RayPool(settings, ray_library())
        try:
            cluster.open()
            asyncio.run(_run(settings, cluster, end=end))
        except ClusterFailed as exc:
            raise InvalidConfig((str(exc),)) from exc
    sys.stderr.flush()
    os._exit(0)  # a call to a cluster that is gone may still wait


async def _run(settings: Placement, cluster: RayPool, *, end: bool) -> None:
    """Raises InvalidConfig and ClusterFailed."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    metrics = PlacementMetrics()
    if settings.metrics is not None and not end:
        try:
            metrics.serve(settings.metrics)
        except OSError as exc:
            raise InvalidConfig((f"metrics: port {settings.metrics}: {exc.strerror}",)) from exc
    gauges = Gauges(settings.tls)
    supervisor = Supervisor(settings, cluster, gauges, metrics)
    await (supervisor.end_all() if end else supervisor.run(stop))
    gauges.close()
