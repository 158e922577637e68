"""Connection settings of a provider: timeouts, certificates, tokens and keys."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import Count, Name, Path, Seconds, Size
from strowger_gateway.schemas.secret import Secret

WHOLE_S: Final = 600.0
"""Seconds for a whole answer, if nothing else is configured: vendors' clients wait as long."""

STREAM_S: Final = 3600.0
"""The same for a stream: while it shows that it is alive, vendors' clients read on for ever."""


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those from silence_s to between_tokens_s apply if the provider streams to the gateway.

    first_byte_s: of an answer that is not streamed. `None`: total_s, or by model and length.
    silence_s: without any byte. `None`, as for the two below: by the model, as patience.py has it.
    total_s:   `None`: WHOLE_S, or STREAM_S if the provider streams to the gateway.
    """

    connect_s: Seconds = 5.0
    first_byte_s: Seconds | None = None
    silence_s: Seconds | None = None
    first_token_s: Seconds | None = None
    between_tokens_s: Seconds | None = None
    total_s: Seconds | None = None


class ProviderKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several keys of a provider; a text in its place is the key alone.

    name:   in logs, metrics and records; "": by its place, key-1 for the first.
    weight: its share of the requests.
    requests_per_minute, tokens_per_minute: of its account at the vendor; `None`: not known, so that
            its 429s say when they are used up.
    """

    key: Secret
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = ""
    weight: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None

    @property
    def digest(self) -> bytes:
        """What distinguishes its secret from others, and does not show it."""
        from hashlib import blake2b  # late: the importing process loads this file, and no OpenSSL

        return blake2b(self.key.reveal().encode("utf-8", "replace"), digest_size=16).digest()


CHECK_S: Final = 10.0
"""Seconds for the answer to a health check, unless the operator says otherwise."""


class HealthCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checks of a provider's backends, also while no client sends anything: by path or by request.

    every_s: the mean interval between two checks of a server, or of a backend.
    path:    GET it at the provider's server; a status below 400 passes. One check per server.
    request: send the smallest request that the API has, with one token of output, to each backend.
    timeout_s: for the whole answer; `None`: CHECK_S, or `every_s` if that is less.
    """

    every_s: Seconds = 30.0
    path: str | None = None
    request: Literal["smallest"] | None = None
    timeout_s: Seconds | None = None

    @property
    def within_s(self) -> float:
        """Return the seconds for an answer."""
        return min(CHECK_S, self.every_s) if self.timeout_s is None else self.timeout_s


class Tls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Verification of a provider's certificate, and our client certificate; PEM files."""

    verify: bool = True
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None


class OAuth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Client credentials (RFC 6749, 4.4) with which the gateway fetches and refreshes tokens.

    token_url, scope: `None`: the adapter's own; an adapter without one needs a token_url.
    client_auth: id and secret in an authorization header, or in the form.
    """

    client_id: Name
    client_secret: Secret
    token_url: str | None = None
    scope: str | None = None
    client_auth: Literal["basic", "body"] = "basic"


class Fetch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Download of images by URL, for providers that need the bytes.

    max_bytes: of all images of one request. timeout_s: per image, redirects included.
    max_total_bytes: of the images of all requests, until their responses are complete.
    connections:     per request; max_connections: of all requests.
    allow:     networks that are allowed although not public; deny: networks never contacted.
    ca_file:   certificates to trust instead of the system's, PEM.
    """

    max_bytes: Size = 20_000_000
    timeout_s: Seconds = 10.0
    max_total_bytes: Size = 512 * 1024 * 1024
    connections: Count = 8
    max_connections: Count = 64
    allow: tuple[Name, ...] = ()
    deny: tuple[Name, ...] = ()
    ca_file: Path | None = None


class ClientFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which request fields a client may pass through to a provider, beyond the adapter's rules.

    Patterns of adapters/client_fields/patterns.py: `provider`, `messages[].cache_control`, `*`.
    deny also accepts the names of known fields (`user`).
    """

    allow: tuple[Name, ...] = ()
    deny: tuple[Name, ...] = ()


class Aws(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The region of an AWS provider, and the keys that sign its requests.

    region: `None`: taken from the base URL.
    access_key_id: `None`: botocore looks for keys, in `profile` if that is given.
    role_arn:      a role to assume with those keys; external_id: as required by its owner.
    """

    region: Name | None = None
    access_key_id: Name | None = None
    secret_access_key: Secret = Secret("")
    session_token: Secret = Secret("")
    profile: Name | None = None
    role_arn: Name | None = None
    external_id: Name | None = None


class Google(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The account whose tokens are sent to Vertex AI or another Google service.

    credentials_file: JSON, of a type that google-auth knows; `None`: Application Default
                      Credentials, as Google's own tools use them.
    scopes:           () means `cloud-platform`. quota_project: the project that is charged.
    """

    credentials_file: Path | None = None
    scopes: tuple[Name, ...] = ()
    quota_project: Name | None = None


class Azure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Entra ID identity whose tokens are sent to a provider, in place of a secret.

    identity:  of the machine (managed), of a federated token in a file (workload), or of the
               user logged in with the Azure CLI (cli).
    client_id: of a user-assigned identity, or of the application that trusts the federated token.
    scope:     `None`: the adapter's own; an adapter without one needs it.
    """

    identity: Literal["managed", "workload", "cli"] = "managed"
    client_id: Name | None = None
    tenant_id: Name | None = None
    token_file: Path | None = None
    scope: Name | None = None
