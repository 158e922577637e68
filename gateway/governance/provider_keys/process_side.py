"""The keys of vendors in a serving process: pauses of all processes, tokens, metrics."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.backends.upstream.key_pool.pool import KeyPool
from strowger_gateway.gateway.backends.upstream.key_pool.pooled_key import PooledKey
from strowger_gateway.gateway.governance.provider_keys.messages import KeyRest, KeyRests, later
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.request_record import RequestRecord


class PooledGeneration(Protocol):
    """A generation of the configuration."""

    @property
    def key_pools(self) -> Mapping[str, KeyPool]: ...


class KeyPoolsSide(ProcessSide[KeyRest, KeyRest | KeyRests], Collector):
    """pools: by provider."""

    receives = KeyRest | KeyRests

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self.pools: Mapping[str, KeyPool] = {}
        self._rests = {
            (one.provider, one.key): one for one in (at.first(KeyRests) or KeyRests()).rests
        }
        at.registry.register(self)

    def follow(self, generation: PooledGeneration) -> None:
        self.pools = generation.key_pools
        for pool in self.pools.values():
            pool.reported = partial(self._report, pool.name)
        self._rests = {
            name: rest for name, rest in self._rests.items() if self._named(rest) is not None
        }
        for rest in self._rests.values():
            self._apply(rest)
        self._at.stages_changed()

    def on_message(self, message: KeyRest | KeyRests) -> None:
        for rest in message.rests if isinstance(message, KeyRests) else (message,):
            name = rest.provider, rest.key
            self._rests[name] = later(rest, self._rests.get(name))
            self._apply(rest)

    def taker(self) -> Callable[[EndedRequests], None] | None:
        """See TakesEnded. What answers have used counts against limits of tokens."""
        limited = any(key.tokens is not None for pool in self.pools.values() for key in pool.keys)
        return self._count_tokens if limited else None

    def collect(self) -> Iterator[Metric]:
        sent = CounterMetricFamily(
            "strowger_provider_key_calls",
            "Calls of providers with several keys, by key and outcome: ok, cancelled, or the code "
            "of the error.",
            labels=("provider", "key", "outcome"),
        )
        free = GaugeMetricFamily(
            "strowger_provider_key_available",
            "1 while the key may be used: neither rate-limited nor refused.",
            labels=("provider", "key"),
        )
        at = now()
        for pool in self.pools.values():
            for key in pool.keys:
                for outcome, count in key.sent.items():
                    sent.add_metric((pool.name, key.name, outcome), count)
                rests = at < key.refused_until or key.wait(at, pool.processes) > 0
                free.add_metric((pool.name, key.name), 0 if rests else 1)
        yield sent
        yield free

    def _report(self, provider: str, key: PooledKey, *, works: bool) -> None:
        self._at.send(
            KeyRest(
                provider=provider,
                key=key.name,
                digest=key.digest,
                works=works,
                limited_until=key.limited_until,
                busy_until=key.busy_until,
                refused_until=key.refused_until,
            )
        )

    def _apply(self, rest: KeyRest) -> None:
        key = self._named(rest)
        if key is not None:
            key.limited_until = max(key.limited_until, rest.limited_until)
            key.busy_until = max(key.busy_until, rest.busy_until)
            if rest.works:
                key.refused_until = rest.refused_until
            else:
                key.refused_until = max(key.refused_until, rest.refused_until)

    def _named(self, rest: KeyRest) -> PooledKey | None:
        """Return the key that a report is about; `None` if another has its name by now."""
        pool = self.pools.get(rest.provider)
        key = None if pool is None else pool.named(rest.key)
        return key if key is not None and key.digest == rest.digest else None

    def _count_tokens(self, ended: EndedRequests) -> None:
        at = now()
        for record, *_ in ended.finished:
            for place, attempt in enumerate(record.attempts):
                if attempt.provider_key:
                    pool = self.pools.get(attempt.backend.partition("/")[0])
                    key = None if pool is None else pool.named(attempt.provider_key)
                    if key is not None and key.tokens is not None:
                        key.used_tokens.add(at, _tokens(record, place))


def _tokens(record: RequestRecord, place: int) -> int:
    """Return the tokens of an attempt: what its vendor reported."""
    last = place == len(record.attempts) - 1
    usage = record.attempts[place].usage or (record.usage if last else None)
    if usage is None:
        return 0
    return (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
