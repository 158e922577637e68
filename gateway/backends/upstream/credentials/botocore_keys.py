"""The only module that uses botocore: its credential chain, and its signer.

https://botocore.amazonaws.com/v1/documentation/api/latest/reference/credentials.html
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypedDict, cast

from botocore import auth, awsrequest, credentials, exceptions, session
from msgspec import Struct

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.credentials.base import Headers
from strowger_gateway.schemas.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from strowger_gateway.schemas.secret import Secret

SERVICE = "bedrock"
"""The service name in signatures, whatever the host's name begins with."""

NO_KEYS = "no AWS credentials"
"""The whole message for clients: the library's reasons name addresses and files."""

SESSION_NAME = "strowger"
"""Session name of an assumed role, in the account's CloudTrail."""

SIGNED = frozenset({"content-type"})
"""Our own headers that are signed: proxies change others."""


class Keys(Struct, frozen=True, kw_only=True):
    """One account's keys. session_token: empty for keys that do not expire."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret = Secret("")


class Role(Struct, frozen=True, kw_only=True):
    """A role to assume. external_id: may be required by another account's trust policy."""

    arn: str
    external_id: str | None = None


class _Frozen(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class _Found(Protocol):
    def get_frozen_credentials(self) -> _Frozen: ...


class _Session(Protocol):
    def get_credentials(self) -> _Found | None: ...
    def get_config_variable(self, logical_name: str) -> object: ...
    def set_config_variable(self, logical_name: str, value: str) -> None: ...
    def create_client(self, service_name: str) -> object: ...


class _Fetcher(Protocol):
    def fetch_credentials(self) -> Mapping[str, str]: ...


class _Request(Protocol):
    headers: Mapping[str, str]


class _Signer(Protocol):
    def add_auth(self, request: _Request) -> None: ...


class _Meta(TypedDict, total=False):
    HTTPStatusCode: int


class _Answer(TypedDict, total=False):
    """Of botocore.exceptions.ClientError."""

    ResponseMetadata: _Meta


class _Botocore(Protocol):
    """The parts of botocore that we use; it has no type annotations."""

    def Session(self, *, profile: str | None) -> _Session: ...  # noqa: N802  botocore's name
    def ReadOnlyCredentials(  # noqa: N802  botocore's name
        self, access_key: str, secret_key: str, token: str | None
    ) -> _Frozen: ...
    def Credentials(  # noqa: N802  botocore's name
        self, access_key: str, secret_key: str, token: str | None
    ) -> _Found: ...
    def AssumeRoleCredentialFetcher(  # noqa: N802  botocore's name
        self,
        client_creator: Callable[..., object],
        source_credentials: _Found,
        role_arn: str,
        extra_args: Mapping[str, str],
    ) -> _Fetcher: ...
    def DeferredRefreshableCredentials(  # noqa: N802  botocore's name
        self, refresh_using: Callable[[], Mapping[str, str]], method: str
    ) -> _Found: ...
    def SigV4Auth(self, keys: _Frozen, service: str, region: str) -> _Signer: ...  # noqa: N802
    def AWSRequest(  # noqa: N802  botocore's name
        self, *, method: str, url: str, data: bytes, headers: Mapping[str, str]
    ) -> _Request: ...


class KeyChain:
    """Find keys where AWS's tools do. `keys` blocks; call it from one thread at a time.

    profile: of ~/.aws. keys: configured ones. role: assumed with the keys found.
    region:  region of the STS for a role's keys, unless the profile or environment sets another.
    """

    def __init__(
        self,
        profile: str | None,
        *,
        region: str,
        upstream: str,
        keys: Keys | None = None,
        role: Role | None = None,
    ) -> None:
        self._profile = profile
        self._region = region
        self._keys = keys
        self._role = role
        self._upstream = upstream
        self._found: _Found | None = None

    def keys(self) -> Keys:
        """Return keys that are valid for at least ten minutes, if they expire at all.

        Raises UpstreamRefused if there are none, UpstreamUnreachable if the service that
        provides them does not answer.
        """
        try:
            if self._found is None:
                self._found = self._find_credentials()
            frozen = self._found.get_frozen_credentials()
        except exceptions.ClientError as exc:
            raise self._answered(exc) from exc
        except exceptions.BotoCoreError as exc:
            raise self._failed(exc) from exc
        except RuntimeError as exc:  # the renewed keys have already expired
            detail = f"{NO_KEYS}: {exc}"
            raise UpstreamUnreachable(NO_KEYS, upstream=self._upstream, detail=detail) from exc
        return Keys(
            access_key_id=frozen.access_key,
            secret_access_key=Secret(frozen.secret_key),
            session_token=Secret(frozen.token or ""),
        )

    def _find_credentials(self) -> _Found:
        own = cast("_Botocore", session).Session(profile=self._profile)
        if not own.get_config_variable("region"):
            own.set_config_variable("region", self._region)
        found = own.get_credentials() if self._keys is None else self._given(self._keys)
        if found is None:
            raise UpstreamRefused(
                "no AWS credentials: none in the environment, in ~/.aws, or from the machine; "
                "set keys or a profile in providers[].aws",
                upstream=self._upstream,
            )
        return found if self._role is None else self._assumed(self._role, found, own)

    def _given(self, keys: Keys) -> _Found:
        return cast("_Botocore", credentials).Credentials(
            keys.access_key_id, keys.secret_access_key.reveal(), keys.session_token.reveal() or None
        )

    def _assumed(self, role: Role, found: _Found, own: _Session) -> _Found:
        extra = {"RoleSessionName": SESSION_NAME}
        if role.external_id is not None:
            extra["ExternalId"] = role.external_id
        fetcher = cast("_Botocore", credentials).AssumeRoleCredentialFetcher(
            own.create_client, found, role.arn, extra
        )
        return cast("_Botocore", credentials).DeferredRefreshableCredentials(
            fetcher.fetch_credentials, "assume-role"
        )

    def _answered(self, exc: exceptions.ClientError) -> UpstreamError:
        """Return the error for STS, or another key service, that rejected us or failed."""
        answer = cast("_Answer", exc.response)
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        kind = UpstreamRefused if status < 500 and status != 429 else UpstreamUnreachable
        return kind(NO_KEYS, upstream=self._upstream, detail=f"{NO_KEYS}: {exc}")

    def _failed(self, exc: Exception) -> UpstreamError:
        """Return the error; an invalid configuration is not retried."""
        ours = (exceptions.ProfileNotFound, exceptions.PartialCredentialsError)
        kind = UpstreamRefused if isinstance(exc, ours) else UpstreamUnreachable
        return kind(NO_KEYS, upstream=self._upstream, detail=f"{NO_KEYS}: {exc}")


def signature(keys: Keys, outbound: Outbound, *, origin: str, region: str) -> Headers:
    """Return the headers that sign the request, valid for five minutes. origin: scheme and host."""
    own = {name.lower(): value for name, value in outbound.headers}
    request = cast("_Botocore", awsrequest).AWSRequest(
        method=outbound.method,
        url=f"{origin}{outbound.target}",
        data=outbound.body,
        headers={name: own[name] for name in SIGNED & set(own)},
    )
    frozen = cast("_Botocore", credentials).ReadOnlyCredentials(
        keys.access_key_id, keys.secret_access_key.reveal(), keys.session_token.reveal() or None
    )
    cast("_Botocore", auth).SigV4Auth(frozen, SERVICE, region).add_auth(request)
    signed = {name.lower(): value for name, value in request.headers.items()}
    return tuple((name, value) for name, value in signed.items() if name not in SIGNED)
