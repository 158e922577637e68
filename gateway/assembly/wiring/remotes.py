"""Build the upstream of a provider that is asked over the network."""

from collections.abc import Callable
from pathlib import Path

from strowger_gateway.adapters.base import Endpoint as ProviderEndpoint
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.backends.upstream.adaptation.compose import adapt
from strowger_gateway.gateway.backends.upstream.base import Upstream
from strowger_gateway.gateway.backends.upstream.credentials.factory import credentials_of
from strowger_gateway.gateway.backends.upstream.http import HttpUpstream
from strowger_gateway.gateway.backends.upstream.image_fetching.image import ImageSource
from strowger_gateway.gateway.backends.upstream.image_fetching.upstream import with_image_fetching
from strowger_gateway.gateway.backends.upstream.key_pool.pool import KeyPool
from strowger_gateway.gateway.backends.upstream.no_replicas import NoReplicas
from strowger_gateway.gateway.backends.upstream.origin import addresses_of
from strowger_gateway.gateway.backends.upstream.tls import TlsContexts
from strowger_gateway.gateway.backends.upstream.transport import Transport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.gateway.backends.upstream.wire.dialing import resolve, resolve_at
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.schemas.secret import Secret


def remote_upstream(
    registry: Registry,
    images: Callable[[], ImageSource],
    contexts: TlsContexts,
    workers: int,
    provider: Provider,
    *,
    at: HostPort | NoReplicas | None = None,
    pool: KeyPool | None = None,
) -> Upstream:
    """Return it as new, without a connection.

    workers: processes that share its connections. at: where its replica is; `None`: at the host
    of its base_url. pool: of its keys, if it has several. Raises InvalidConfig and ValueError for
    settings that cannot be used.
    """
    base_url = (provider.base_url or registry.base_url(provider.adapter)).rstrip("/")
    transport = (
        at if isinstance(at, NoReplicas) else _transport(provider, base_url, contexts, workers, at)
    )

    def asked_with(key: Secret) -> HttpUpstream:
        endpoint = ProviderEndpoint(
            name=provider.name,
            base_url=base_url,
            key=key,
            headers=tuple((name, value.reveal()) for name, value in provider.headers.items()),
            contexts=provider.num_ctx,
            continues=None if provider.continues == "no" else provider.continues,
        )
        return HttpUpstream(
            provider.name,
            registry.build(provider.adapter, endpoint),
            transport,
            provider.timeouts,
            credentials=credentials_of(provider, base_url, registry),
            client_fields=provider.client_fields,
            addresses=addresses_of(base_url),
            most_bytes=provider.max_answer_bytes,
        )

    upstream: Upstream
    if pool is None:
        upstream = asked_with(provider.api_key)
    else:
        # Late, because few providers have several keys.
        from strowger_gateway.gateway.backends.upstream.key_pool.upstream import PooledUpstream

        upstream = PooledUpstream(pool, [asked_with(one.key) for one in provider.api_keys])
    return adapt(
        with_image_fetching(upstream, images),
        None if provider.tokenizer is None else Path(provider.tokenizer),
    )


def _transport(
    provider: Provider, base_url: str, contexts: TlsContexts, workers: int, at: HostPort | None
) -> Transport:
    """Our own client, unless a proxy is in the way. workers: share the connections."""
    connections = provider.connections_of(workers)
    if provider.proxy is not None:
        # Late, because httpx takes 6 MB.
        from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport

        return HttpxTransport(
            base_url,
            name=provider.name,
            tls=provider.tls,
            max_connections=connections,
            proxy=provider.proxy.reveal(),
        )
    return WireTransport(
        base_url,
        name=provider.name,
        tls=provider.tls,
        max_connections=connections,
        contexts=contexts,
        resolve=resolve if at is None else resolve_at(at.host, at.port),
    )
