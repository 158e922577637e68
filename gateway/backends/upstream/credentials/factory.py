"""Build a provider's credentials from its configuration, if a key alone is not enough."""

from urllib.parse import urlsplit

from strowger_gateway.adapters.base import TokenEndpoint
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.upstream.credentials.base import Credentials
from strowger_gateway.gateway.backends.upstream.origin import origin_of
from strowger_gateway.gateway.config.aws import aws_region, signs
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.gateway.config.schema.connection import Aws, Azure


def credentials_of(provider: Provider, base_url: str, registry: Registry) -> Credentials | None:
    """Return `None` if the adapter's own headers are enough. Reads certificates; sends nothing."""
    oauth = provider.oauth
    if provider.aws is not None and signs(provider):
        return _signatures(provider.name, provider.aws, base_url)
    if provider.google is not None or provider.azure is not None:
        return _library_tokens(provider, registry)
    if oauth is None:
        return None
    # Late, because httpx takes 6 MB.
    from strowger_gateway.gateway.backends.upstream.credentials.client_credentials import (
        ClientCredentials,
        Grant,
    )
    from strowger_gateway.gateway.backends.upstream.httpx_transport import HttpxTransport

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


def _library_tokens(provider: Provider, registry: Registry) -> Credentials:
    # Late, because only such a provider needs a vendor's library.
    from strowger_gateway.gateway.backends.upstream.credentials.library_http import LibraryCalls
    from strowger_gateway.gateway.backends.upstream.credentials.library_tokens import (
        LibraryTokens,
        TokenSource,
    )

    own = registry.tokens(provider.adapter) or TokenEndpoint(path="")
    proxy = provider.proxy.reveal() if provider.proxy is not None else None

    def calls() -> LibraryCalls:
        return LibraryCalls(provider.tls, proxy=proxy, connect_s=provider.timeouts.connect_s)

    source: TokenSource
    if provider.google is not None:
        from strowger_gateway.gateway.backends.upstream.credentials.google_tokens import (
            GoogleTokens,
        )

        source = GoogleTokens(provider.google, calls, upstream=provider.name)
    else:
        from strowger_gateway.gateway.backends.upstream.credentials.entra_tokens import EntraTokens

        azure = provider.azure or Azure()
        scope = azure.scope or own.scope
        source = EntraTokens(azure, scope, calls, upstream=provider.name)
    return LibraryTokens(source, upstream=provider.name, lapsed=own.lapsed)


def _signatures(name: str, aws: Aws, base_url: str) -> Credentials:
    # Late, because only a provider that signs needs botocore.
    from strowger_gateway.gateway.backends.upstream.credentials.aws_signing import AwsSignatures
    from strowger_gateway.gateway.backends.upstream.credentials.botocore_keys import (
        KeyChain,
        Keys,
        Role,
    )

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
    region = aws_region(aws, base_url)
    role = None if aws.role_arn is None else Role(arn=aws.role_arn, external_id=aws.external_id)

    def chain() -> KeyChain:
        return KeyChain(aws.profile, region=region, keys=keys, role=role, upstream=name)

    return AwsSignatures(
        f"{origin.scheme}://{origin.authority}",
        region,
        upstream=name,
        keys=keys if role is None else None,
        chain=chain,
    )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
