"""Cross-checks of `providers[].engines`: addresses, certificates, and what a pool cannot be."""

from importlib.util import find_spec
from pathlib import Path as FilePath

from strowger_gateway.gateway.config.dns_server import server_of
from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.config.schema.discovery import Discover
from strowger_gateway.local_engine.protocol.address import TcpAddress, parse_address

MOST_REPLICAS = 64
"""Addresses of one provider."""


def check_engines(provider: Provider, path: Path, problems: Problems) -> None:
    """Check the engines of a provider with adapter local."""
    engines = provider.engines
    assert engines is not None
    place = (*path, "engines")
    if provider.engine is not None:
        problems.add(
            place, "is for engines on other machines, `engine` for one of this machine; give one"
        )
    if problems.under(place):
        return
    if engines.discover is not None:
        _discover(engines.discover, (*place, "discover"), problems)
        if engines.tls is None:
            problems.add(
                (*place, "tls"),
                "is missing: engines that are found may be on other machines, which requires "
                "mutual TLS; give cert, key and ca",
            )
    elif not engines.hosts:
        problems.add((*place, "hosts"), "is empty; give at least one HOST:PORT, or discover")
    if len(engines.hosts) > MOST_REPLICAS:
        problems.add((*place, "hosts"), f"has more than {MOST_REPLICAS} addresses")
    seen: dict[str, int] = {}
    for index, host in enumerate(engines.hosts):
        spot = (*place, "hosts", index)
        first = seen.setdefault(host, index)
        if first != index:
            problems.add(spot, Found(host), f" is already hosts[{first}]")
            continue
        address = _address(host, spot, problems)
        if address is not None and engines.tls is None and not address.loopback:
            problems.add(
                spot,
                Found(host),
                " is on another machine, which requires mutual TLS; give engines.tls with cert, "
                "key and ca",
            )
    if engines.tls is not None:
        for name in ("cert", "key", "ca"):
            file = str(getattr(engines.tls, name))
            if not FilePath(file).is_file():
                problems.add((*place, "tls", name), "no such file or folder: ", Found(file))


def _discover(discover: Discover, place: Path, problems: Problems) -> None:
    if (discover.dns is None) == (discover.file is None):
        problems.add(place, "give either dns or file")
        return
    if discover.file is not None:
        for name in ("port", "server"):
            if getattr(discover, name) is not None:
                problems.add((*place, name), "has no effect with file; remove it")
        return
    if find_spec("dns") is None:
        problems.add(
            (*place, "dns"), "needs dnspython: pip install 'strowger-gateway[dns]', or use file"
        )
    service = str(discover.dns).startswith("_")
    if discover.port is None and not service:
        problems.add(
            (*place, "port"), "is missing; only names of services (_SERVICE._tcp.NAME) have one"
        )
    if discover.port is not None and service:
        problems.add((*place, "port"), "is in the SRV records of the service; remove it")
    if discover.server is not None:
        try:
            server_of(discover.server)
        except ValueError:
            problems.add(
                (*place, "server"), Found(discover.server), " is not ADDRESS or ADDRESS:PORT"
            )


def check_pools(config: Config, problems: Problems) -> None:
    """Refuse several engines where exactly one backend is meant."""
    pools = {one.name for one in config.providers if one.engines is not None and not one.replica_of}
    if not pools:
        return
    for index, model in enumerate(config.models):
        if model.mirror is not None:
            place: Path = ("models", index, "mirror", "backend")
            _refuse(model.mirror.backend, pools, place, problems)
    for index, experiment in enumerate(config.experiments):
        for spot, variant in enumerate(experiment.variants):
            place = ("experiments", index, "variants", spot, "backend")
            _refuse(variant.backend, pools, place, problems)


def _refuse(backend: str, pools: set[str], place: Path, problems: Problems) -> None:
    provider = backend.partition("/")[0]
    if provider in pools and not problems.at(place):
        problems.add(
            place,
            Found(provider),
            " has several engines, and exactly one backend is needed here; give one of them a "
            "provider of its own",
        )


def _address(host: str, place: Path, problems: Problems) -> TcpAddress | None:
    try:
        return parse_address(host)
    except ValueError:
        problems.add(place, Found(host), " is not HOST:PORT; write IPv6 as [ADDRESS]:PORT")
        return None
