"""Build the upstreams of engines, started by this gateway or elsewhere."""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct, field

from strowger_gateway.gateway.backends.engines.link.places import (
    EnginePlace,
    NoPlace,
    TcpPlace,
    UnixPlace,
)
from strowger_gateway.gateway.backends.engines.process.process import EngineView, engine_settings
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.gateway.config.schema.engines import EngineTls
from strowger_gateway.local_engine.protocol.address import parse_address
from strowger_gateway.local_engine.protocol.identity import weights_of
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls, TlsPaths

Certificates = dict[TlsPaths, MutualTls]
"""Replicas with the same files share one context."""


class EngineKnowledge(Struct, kw_only=True, eq=False):
    """What configuration generations share. weights: by provider, those that its engines report."""

    certificates: Certificates = field(default_factory=Certificates)
    weights: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def engine_here(provider: Provider, engine: EngineView) -> LocalUpstream:
    """Return the upstream of an engine process of this machine."""
    return LocalUpstream(
        engine.name,
        UnixPlace(engine.socket_path),
        provider.timeouts,
        partial(getattr, engine, "status"),
        engine.ready_in,
        partial(getattr, engine, "state"),
        weights_of(engine_settings(provider)),
    )


def engine_elsewhere(provider: Provider, known: EngineKnowledge) -> LocalUpstream:
    """Return the upstream of one replica of `provider.engines`.

    Errors name the provider, because clients see them; the address is in logs and metrics.
    Raises InvalidConfig for certificates that cannot be used.
    """
    return LocalUpstream(
        provider.replica_of or provider.name,
        _place(provider, known.certificates),
        provider.timeouts,
        reported=known.weights.setdefault(provider.replica_of or provider.name, {}),
    )


def replicas_of(links: Mapping[str, LocalUpstream]) -> dict[str, LocalUpstream]:
    """Return those of `links` that are on other machines."""
    return {name: one for name, one in links.items() if not isinstance(one.place, UnixPlace)}


def _place(provider: Provider, certificates: Certificates) -> EnginePlace:
    engines = provider.engines
    assert engines is not None
    if not engines.hosts:
        return NoPlace(f"no address of an engine of {provider.name} is known")
    address = parse_address(engines.hosts[0])
    if engines.tls is None:
        return TcpPlace(address, None)
    paths = _paths(engines.tls)
    if paths not in certificates:
        certificates[paths] = MutualTls(paths, server=False)
    return TcpPlace(address, certificates[paths], engines.tls.server_name)


def _paths(tls: EngineTls) -> TlsPaths:
    return TlsPaths(cert=tls.cert, key=tls.key, ca=tls.ca)
