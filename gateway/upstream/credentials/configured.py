"""From a provider's configuration to its credentials, where a key alone is not enough."""

from urllib.parse import urlsplit

from adapters.base import TokenEndpoint
from adapters.registry import Registry
from gateway.config.aws import aws_region, signs
from gateway.config.connection import Aws
from gateway.config.model import Provider
from gateway.upstream.credentials.base import Credentials
from gateway.upstream.credentials.client_credentials import ClientCredentials, Grant
from gateway.upstream.general import HttpxTransport
from gateway.upstream.origin import origin_of


def credentials_of(provider: Provider, base_url: str, registry: Registry) -> Credentials | None:
    """`None` where the adapter's own headers are enough. Reads certificates; no request yet."""
    oauth = provider.oauth
    if provider.aws is not None and signs(provider):
        return _signatures(provider.name, provider.aws, base_url)
    if oauth is None:
        return None
    own = registry.tokens(provider.adapter) or TokenEndpoint(path="")
    url = oauth.token_url or f"{_origin(base_url)}{own.path}"
    grant = Grant(
        url=url,
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        scope=own.scope if oauth.scope is None else oauth.scope,
        auth=oauth.client_auth,
    )
    transport = HttpxTransport(
        _origin(url),
        name=provider.name,
        tls=provider.tls,
        max_connections=1,
        proxy=provider.proxy.reveal() if provider.proxy is not None else None,
    )
    return ClientCredentials(
        grant,
        transport,
        upstream=provider.name,
        connect_s=provider.timeouts.connect_s,
        lapsed=own.lapsed,
    )


def _signatures(name: str, aws: Aws, base_url: str) -> Credentials:
    # Late, because only a provider that signs needs botocore.
    from gateway.upstream.credentials.aws import AwsSignatures
    from gateway.upstream.credentials.botocore_keys import Keys

    keys = (
        Keys(
            access_key_id=aws.access_key_id,
            secret_access_key=aws.secret_access_key,
            session_token=aws.session_token,
        )
        if aws.access_key_id is not None
        else None
    )
    origin = origin_of(base_url, upstream=name)
    return AwsSignatures(
        f"{origin.scheme}://{origin.authority}",
        aws_region(aws, base_url),
        upstream=name,
        keys=keys,
        profile=aws.profile,
    )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
