"""The only module that uses google-auth: Application Default Credentials, or those of a file.

https://cloud.google.com/docs/authentication/application-default-credentials
https://googleapis.dev/python/google-auth/latest/
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, cast

import google.auth
import msgspec
from google.auth import aws, exceptions, identity_pool, impersonated_credentials, pluggable
from google.auth import external_account_authorized_user as federated_user
from google.auth.transport import requests as transport
from google.oauth2 import credentials as user
from google.oauth2 import service_account

from strowger_gateway.gateway.backends.upstream.credentials.auto_refresh import ExpiringValue
from strowger_gateway.gateway.backends.upstream.credentials.library_http import (
    LibraryCalls,
    library_reason,
    refused,
)
from strowger_gateway.gateway.backends.upstream.credentials.library_tokens import Bearer
from strowger_gateway.gateway.backends.upstream.credentials.refresh_schedule import (
    ASSUMED_LIFETIME_S,
)
from strowger_gateway.gateway.config.schema.connection import Google
from strowger_gateway.schemas.errors import UpstreamRefused
from strowger_gateway.schemas.secret import Secret

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
NAMED_FILE = "GOOGLE_APPLICATION_CREDENTIALS"

Info = dict[str, object]


class _Found(Protocol):
    """The parts of google.auth.credentials.Credentials that we use; expiry is naive UTC."""

    @property
    def token(self) -> str | None: ...
    @property
    def expiry(self) -> datetime | None: ...
    @property
    def quota_project_id(self) -> str | None: ...
    def refresh(self, request: transport.Request) -> None: ...


class _Loaders(Protocol):
    """google-auth's functions that create credentials; most have no type annotations."""

    def from_service_account_info(self, info: Info, *, scopes: Sequence[str]) -> _Found: ...
    def from_authorized_user_info(self, info: Info) -> _Found: ...
    def from_impersonated_service_account_info(
        self, info: Info, *, scopes: Sequence[str]
    ) -> _Found: ...
    def from_info(self, info: Info, *, scopes: Sequence[str]) -> _Found: ...


class _UserLoader(Protocol):
    def from_info(self, info: Info) -> _Found: ...


class _Defaults(Protocol):
    def default(
        self, scopes: Sequence[str], request: transport.Request, quota_project_id: str | None
    ) -> tuple[_Found, str | None]: ...


def _service_account(info: Info, scopes: Sequence[str]) -> _Found:
    return cast("_Loaders", service_account.Credentials).from_service_account_info(
        info, scopes=scopes
    )


def _user(info: Info, scopes: Sequence[str]) -> _Found:
    """Load the output of `gcloud auth application-default login`; its scopes are fixed."""
    return cast("_Loaders", user.Credentials).from_authorized_user_info(info)


def _impersonated(info: Info, scopes: Sequence[str]) -> _Found:
    return cast(
        "_Loaders", impersonated_credentials.Credentials
    ).from_impersonated_service_account_info(info, scopes=scopes)


def _federated(info: Info, scopes: Sequence[str]) -> _Found:
    """Load workload identity: another platform's token, by file, URL, program or AWS keys."""
    source = info.get("credential_source")
    if info.get("subject_token_type") == "urn:ietf:params:aws:token-type:aws4_request":
        kind: object = aws.Credentials
    elif isinstance(source, dict) and "executable" in source:
        kind = pluggable.Credentials
    else:
        kind = identity_pool.Credentials
    return cast("_Loaders", kind).from_info(info, scopes=scopes)


def _federated_user(info: Info, scopes: Sequence[str]) -> _Found:
    """Load a login of a workforce pool; its scopes are fixed too."""
    return cast("_UserLoader", federated_user.Credentials).from_info(info)


KINDS: Mapping[str, Callable[[Info, Sequence[str]], _Found]] = {
    "service_account": _service_account,
    "authorized_user": _user,
    "impersonated_service_account": _impersonated,
    "external_account": _federated,
    "external_account_authorized_user": _federated_user,
}
"""Loaders by the `type` in a credentials file."""


class GoogleTokens:
    """See TokenSource. Searches again each time, because files and machines change.

    calls: makes the HTTP calls for one token.
    """

    def __init__(self, google: Google, calls: Callable[[], LibraryCalls], *, upstream: str) -> None:
        self._google = google
        self._scopes = google.scopes or SCOPES
        self._calls = calls
        self._upstream = upstream

    def bearer(self) -> ExpiringValue[Bearer]:
        """See TokenSource."""
        calls = self._calls()
        with calls.session() as session:
            request = transport.Request(session)
            try:
                found = self._found(request)
                found.refresh(request)
            except exceptions.DefaultCredentialsError as exc:
                raise self._refused(library_reason(exc)) from exc
            except (exceptions.GoogleAuthError, ValueError, OSError) as exc:
                raise calls.error(exc, upstream=self._upstream) from exc
        return self._lease(found)

    def _found(self, request: transport.Request) -> _Found:
        file = self._google.credentials_file or os.environ.get(NAMED_FILE)
        if file:
            return self._of_file(Path(file))
        found, _ = cast("_Defaults", google.auth).default(
            self._scopes, request, self._google.quota_project
        )
        return found

    def _of_file(self, file: Path) -> _Found:
        try:
            info = msgspec.json.decode(file.read_bytes(), type=Info)
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as exc:
            raise self._refused(f"{file} is not a readable file of Google credentials") from exc
        kind = KINDS.get(str(info.get("type")))
        if kind is None:
            raise self._refused(f"{file}: type must be one of {', '.join(KINDS)}")
        try:
            return kind(info, self._scopes)
        except (exceptions.GoogleAuthError, ValueError, TypeError, KeyError, AttributeError) as exc:
            # The library's message may contain the key.
            raise self._refused(f"{file} is not a valid file of type {info['type']!r}") from exc

    def _lease(self, found: _Found) -> ExpiringValue[Bearer]:
        expiry, seconds = found.expiry, ASSUMED_LIFETIME_S
        if expiry is not None:
            seconds = (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()
        project = self._google.quota_project or found.quota_project_id or ""
        bearer = Bearer(token=Secret(found.token or ""), project=project)
        return ExpiringValue(value=bearer, lifetime_s=seconds)

    def _refused(self, why: str) -> UpstreamRefused:
        return refused(why, upstream=self._upstream)
