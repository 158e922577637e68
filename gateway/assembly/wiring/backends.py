"""Build the backends of a generation: each once, with its health, load and replicas."""

from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from strowger_gateway.gateway.assembly.wiring.supports import supports_of
from strowger_gateway.gateway.assembly.wiring.upstreams import Upstreams
from strowger_gateway.gateway.backends.discovery.discovered import Discovered
from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.backends.upstream.base import Upstream, chat_path_of, whole_chat_of
from strowger_gateway.gateway.config.schema.config import Config, Model
from strowger_gateway.gateway.config.schema.discovery import DiscoverReplicas
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.model_facts import KnownModels
from strowger_gateway.gateway.routing.planning.pool_headers import PoolHeaders
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.resilience.breaker_per_model import Breakers
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.recent_activity import Load
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK, Replica
from strowger_gateway.gateway.routing.slowness.siblings import Siblings


class Before(Protocol):
    """The backends and replicas of an earlier generation."""

    @property
    def backends(self) -> Mapping[str, Backend]: ...
    @property
    def replicas(self) -> Mapping[tuple[str, HostPort], Replica]: ...


class BackendBuilder:
    """Builds each backend of a model once, because its health belongs to all its uses."""

    def __init__(
        self,
        config: Config,
        upstreams: Upstreams,
        prices: Prices,
        known: KnownModels,
        before: "Before | None",
        discovered: Discovered,
    ) -> None:
        """before: the previous generation's. Health and load of what is the same are taken over."""
        self._pools = {
            one.name: PoolHeaders(one.pool) for one in config.providers if one.pool is not None
        }
        self._broken_off = {one.name for one in config.providers if one.continues == "no"}
        self._upstreams = upstreams
        self._prices = prices
        self._known = known
        self._before = before
        self._discovered = discovered
        self.backends: dict[str, Backend] = {}
        self._siblings: dict[str, Siblings | None] = {}
        self.replicas: dict[tuple[str, HostPort], Replica] = {}

    def backend(self, model: Model, name: str, use: str = "") -> Backend:
        """The model's backend. use: for one that shares its health with no other use."""
        key = f"{model.name}: {name}{use}"
        if key in self.backends:
            return self.backends[key]
        upstream = self._upstreams.by_provider[name.partition("/")[0]]
        return self._made(key, model, name, upstream, alone=bool(use))

    def all(
        self, model: Model, name: str, discover: DiscoverReplicas | None
    ) -> tuple[Backend, ...]:
        """The model's backend, or one for each of its replicas."""
        if discover is None:
            return (self.backend(model, name),)
        provider = name.partition("/")[0]
        known = self._discovered.of(discover)
        if not known:
            key = f"{model.name}: {name}"
            upstream = self._upstreams.replicas[provider, None]
            return (self.backends.get(key) or self._made(key, model, name, upstream),)
        found: list[Backend] = []
        for address in known:
            key = f"{model.name}: {name}{REPLICA_MARK}{address.text}"
            upstream = self._upstreams.replicas[provider, address]
            replica = self._replica(provider, address, discover)
            found.append(self.backends.get(key) or self._made(key, model, name, upstream, replica))
        return tuple(found)

    def _replica(self, provider: str, address: HostPort, discover: DiscoverReplicas) -> Replica:
        """A replica starts slowly if the generation before had others of its provider."""
        key = provider, address
        if key not in self.replicas:
            before = self._before
            late = before is not None and any(name == provider for name, _ in before.replicas)
            known = before.replicas.get(key) if before is not None else None
            self.replicas[key] = known or Replica(
                address.text,
                joined_at=now() if late else float("-inf"),
                slow_start_s=discover.slow_start_s,
            )
        return self.replicas[key]

    def _made(
        self,
        key: str,
        model: Model,
        name: str,
        upstream: Upstream,
        replica: Replica | None = None,
        *,
        alone: bool = False,
    ) -> Backend:
        """alone: it is compared with no other backend."""
        provider, _, upstream_model = name.partition("/")
        old = self._before.backends.get(key) if self._before else None
        known = old if old is not None and old.upstream is upstream else None
        same_rule = known is not None and known.breaker.rule == model.breaker
        supports = supports_of(upstream.supports, model, upstream_model)
        if provider in self._broken_off:
            supports = replace(supports, continues=None)
        breaker = known.breaker if known and same_rule else Breaker(model.breaker)
        siblings = None if alone else self._siblings_of(model)
        self.backends[key] = Backend(
            name=name,
            model=upstream_model,
            upstream=upstream,
            supports=supports,
            breaker=breaker,
            breakers=known.breakers if known and same_rule else Breakers(model.breaker, breaker),
            budget=self._upstreams.budgets[provider],
            load=known.load if known else Load(),
            prices=self._prices,
            whole_chat=whole_chat_of(upstream),
            chats=chat_path_of(upstream),
            models=self._known,
            replica=replica,
            pool=self._pools.get(provider),
            siblings=siblings,
            owner=model.name,
            timed=siblings is not None or model.breaker.slow_s is not None,
        )
        return self.backends[key]

    def _siblings_of(self, model: Model) -> Siblings | None:
        """What the model's backends share; `None` if there is one, or their order is kept."""
        if model.name not in self._siblings:
            several = len(model.backends) > 1 or any(one.discover for one in model.backends)
            compared = several and model.on_slow == "deprioritise"
            self._siblings[model.name] = Siblings(model.name) if compared else None
        return self._siblings[model.name]
