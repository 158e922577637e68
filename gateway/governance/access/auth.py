"""Identify the caller by its API key, and check what that key may use."""

import hmac
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from ipaddress import ip_network
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from strowger_gateway.gateway.config.schema.auth import Auth, Key, Team
from strowger_gateway.gateway.governance.access.client_address import ClientAddresses
from strowger_gateway.gateway.governance.access.client_certificate import check_certificate
from strowger_gateway.gateway.governance.access.query_key import key_in_query
from strowger_gateway.gateway.governance.issued_keys.keys_in_effect import (
    IssuedKeys,
    Network,
    check_conditions,
    check_network,
)
from strowger_gateway.gateway.governance.issued_keys.secret import judged
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeySecret
from strowger_gateway.schemas.errors import Forbidden, Throttled, Unauthenticated
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

if TYPE_CHECKING:
    from litestar.types import Scope


class WrongKey(Unauthenticated):
    """The request carries a key that is not valid."""


class Caller(Struct, frozen=True, kw_only=True):
    """One key's rights. models: names, or prefixes ending in `*`; max_priority: 1 is highest,
    and that of clients without a key.

    team: its team, "" for none. team_models: of the team, if they are limited; both lists apply.
    user: of an issued key or a token. tags: of a key, for reports of usage. plan: of a token.
    holder: as what is scarce is shared out; ANONYMOUS for the only key, which nothing bounds.
    background: its requests wait behind all others.
    """

    name: str = ""
    models: tuple[str, ...] = ("*",)
    max_priority: int = 1
    team: str = ""
    team_models: tuple[str, ...] | None = None
    user: str = ""
    tags: tuple[str, ...] = ()
    plan: str = ""
    holder: Holder = ANONYMOUS
    background: bool = False

    def may_use(self, *names: str) -> bool:
        """Return whether the key may use any of the names (the requested one, the model's own)."""
        for pattern in self.models:
            if (
                pattern == "*"
                or pattern in names
                or (pattern.endswith("*") and _any_begins(names, pattern[:-1]))
            ):
                return self.team_models is None or _any_matches(names, self.team_models)
        return False


EVERYONE = Caller()

_TOKEN = b"eyJ"
"""The first bytes of a token: `{"` in base64."""

_CREDENTIALS = frozenset({b"authorization", b"api-key", b"x-api-key", b"x-goog-api-key"})


class Tokens(Protocol):
    """Callers with tokens of identity providers, instead of keys."""

    def takes(self, credential: bytes) -> bool:
        """Return whether a credential has the form of a token."""
        ...

    def known(self, token: bytes) -> Caller | None:
        """Return the caller of a token that was verified before and is still valid."""
        ...

    async def caller(self, token: bytes) -> Caller:
        """Raises Unauthenticated, Forbidden, and Unavailable if it cannot be verified now."""
        ...


class _Entry(Struct, frozen=True, kw_only=True, gc=False):
    """One secret. issued: its key and what is known of the secret, if it is not in the file.

    networks, certificates: from and with which it may be used; () are all.
    """

    digest: bytes
    caller: Caller
    issued: tuple[IssuedKey, KeySecret] | None = None
    networks: tuple[Network, ...] = ()
    team_missing: bool = False
    certificates: tuple[str, ...] = ()


class Keyring:
    """Look up callers by key: those of the file, and the issued ones.

    Keys are stored and looked up as SHA-256 digests, and digests are compared in constant time,
    so that response times reveal nothing about a key. Valid keys that were seen are found by their
    hash: a dictionary compares bytes only if all 64 bits of a SipHash with a secret seed are equal,
    so its time reveals nothing, either. It has at most one entry per key.

    An issued key that was seen is not checked again until its list changes, a key expires, or some
    seconds have passed (`IssuedKeys.tick`), unless it is bound to networks.

    several: there are several keys, or callers with tokens, so each is limited to its share.
    """

    def __init__(
        self,
        auth: Auth,
        teams: Sequence[Team] = (),
        issued: IssuedKeys | None = None,
        addresses: ClientAddresses | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """issued: changes later. addresses: finds those that an issued key may be bound to.

        tokens: `None` if no identity provider is configured.
        """
        self._open = auth.mode == "none"
        self._auth = auth
        self._teams = {team.name: team for team in teams}
        self._issued = IssuedKeys() if issued is None else issued
        self._addresses = ClientAddresses(()) if addresses is None else addresses
        self._tokens = tokens
        self._entries: dict[bytes, _Entry] = {}
        self._by_name: dict[str, Caller] = {}
        self._seen: dict[bytes, Caller] = {}
        self.several = False
        self.rebuild()
        self._issued.follow(self)

    def known(self, scope: "Scope") -> Caller | None:
        """Return the caller if its key or token was accepted recently; otherwise call `caller`."""
        if self._open:
            return EVERYONE
        credential = _credential(scope["headers"]) or key_in_query(scope)
        if self._tokens is not None and credential[:3] == _TOKEN:
            return self._tokens.known(credential) or self._seen.get(credential)
        return self._seen.get(credential)

    async def caller(self, scope: "Scope") -> Caller:
        """Raise Unauthenticated when keys are required and the request has none, or a wrong one.

        Raise Unauthenticated or Forbidden if a condition of an issued key or a token is not met,
        and Unavailable if the identity provider of a token cannot be reached to verify it.
        """
        found = self.known(scope)
        if found is not None:
            return found
        credential = _credential(scope["headers"]) or key_in_query(scope)
        if not credential:
            raise Unauthenticated(
                "no API key in the request; use the header `Authorization: Bearer <key>`"
            )
        if self._tokens is not None and self._tokens.takes(credential):
            digest = sha256(credential).digest()
            if digest[:8] not in self._entries:
                return await self._tokens.caller(credential)
        return self._checked(credential, scope)

    def named(self, name: str) -> Caller | None:
        """Return the caller with the key of this name."""
        return self._by_name.get(name)

    @property
    def names(self) -> Iterable[str]:
        return self._by_name.keys()

    def rebuild(self) -> None:
        """See Follower. A key of the file wins over an issued one of the same name."""
        names = {key.name for key in (*self._auth.keys, *self._issued.keys)}
        several = len(names) > 1 or self._tokens is not None
        self.several = not self._open and several
        entries = list(self._of_issued())
        entries += [
            _Entry(
                digest=key.digest,
                caller=self._caller_of_file(key),
                certificates=key.client_certificates,
            )
            for key in self._auth.keys
        ]
        self._entries = {entry.digest[:8]: entry for entry in entries}
        self._by_name = {entry.caller.name: entry.caller for entry in entries}
        self._seen = {}

    def forget_seen(self) -> None:
        """See Follower."""
        self._seen = {}

    def _checked(self, key: bytes, scope: "Scope") -> Caller:
        """Return the caller with a key that was not seen recently; see `caller`."""
        digest = sha256(key).digest()
        entry = self._entries.get(digest[:8])
        if not hmac.compare_digest(b"" if entry is None else entry.digest, digest):
            entry = None
        if entry is None:
            if judged(key.decode("latin-1")) == "damaged":
                raise WrongKey("the API key is damaged: its checksum is wrong; copy it again")
            raise WrongKey("the API key is not valid")
        caller = entry.caller
        if entry.issued is not None:
            issued, secret = entry.issued
            at = self._issued.clock()
            check_conditions(issued, secret, at)
            if entry.networks:
                check_network(caller.name, entry.networks, self._addresses.address(scope))
            if entry.team_missing:
                raise Forbidden(
                    f"the team {caller.team!r} of the API key {caller.name!r} is not configured",
                    code="team_not_found",
                )
            self._issued.note_use(caller.name, at)
            if entry.networks:
                return caller
        if entry.certificates:
            check_certificate(caller.name, entry.certificates, scope)
            return caller
        self._seen[key] = caller
        return caller

    def _caller_of_file(self, key: Key) -> Caller:
        team = self._teams.get(key.team or "")
        return Caller(
            name=key.name,
            models=key.models,
            max_priority=key.max_priority,
            team=key.team or "",
            team_models=None if team is None or "*" in team.models else team.models,
            tags=key.tags,
            holder=self._holder(key.name, key.team or ""),
            background=key.background,
        )

    def _holder(self, name: str, team: str) -> Holder:
        return Holder(name, team) if self.several else ANONYMOUS

    def _of_issued(self) -> Iterator[_Entry]:
        in_file = {key.name for key in self._auth.keys}
        for key in self._issued.keys:
            if key.name in in_file:
                continue
            team = self._teams.get(key.team)
            caller = Caller(
                name=key.name,
                models=key.models,
                max_priority=key.max_priority,
                team=key.team,
                team_models=None if team is None or "*" in team.models else team.models,
                user=key.user,
                tags=key.tags,
                holder=self._holder(key.name, key.team),
            )
            networks = tuple(map(ip_network, key.allowed_networks))
            for secret in key.secrets:
                yield _Entry(
                    digest=bytes.fromhex(secret.digest),
                    caller=caller,
                    issued=(key, secret),
                    networks=networks,
                    team_missing=bool(key.team) and team is None,
                )


class AdminKey:
    """The operator's key, stored as a digest and compared in constant time. Empty: not set."""

    def __init__(self, auth: Auth) -> None:
        key = auth.admin_key.reveal()
        self._digest = sha256(key.encode()).digest() if key else None

    @property
    def set(self) -> bool:
        """Return whether an admin key is configured."""
        return self._digest is not None

    def is_key(self, sent: bytes) -> bool:
        """Return whether these bytes are the key."""
        return self._digest is not None and hmac.compare_digest(self._digest, sha256(sent).digest())

    def derived(self, purpose: bytes) -> bytes:
        """Return 32 bytes for signing that only a holder of the key can compute.

        Raises LookupError when no key is set.
        """
        if self._digest is None:
            raise LookupError("no admin key is configured")
        return hmac.digest(self._digest, purpose, "sha256")

    def opens(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether the request carries the key, as `Authorization: Bearer <key>`."""
        for name, value in headers:
            if name == b"authorization" and value[:7].lower() == b"bearer ":
                return self.is_key(value[7:].strip())
        return False


class MetricsAccess:
    """Decide who may read /metrics, which shows the models and the traffic of all clients."""

    def __init__(self, auth: Auth, keyring: Keyring) -> None:
        """keyring: of the same configuration."""
        self._everyone = auth.metrics == "open" or (auth.metrics == "admin" and auth.mode == "none")
        self._clients = auth.metrics == "client"
        self._admin, self._keyring = AdminKey(auth), keyring
        scraper = auth.metrics_key.reveal()
        self._scraper = sha256(scraper.encode()).digest() if scraper else None

    async def check(self, scope: "Scope") -> None:
        """scope: of the request. Raises as `Keyring.caller`."""
        headers = scope["headers"]
        if self._everyone or self._admin.opens(headers):
            return
        if self._scraper is not None:
            digest = sha256(_credential(headers)).digest()
            if hmac.compare_digest(digest, self._scraper):
                return
        if self._clients:
            await self._keyring.caller(scope)
            return
        raise (WrongKey if _credential(headers) else Unauthenticated)(
            "/metrics needs auth.metrics_key or the operator's key; use the header "
            "`Authorization: Bearer <key>`"
        )


def too_many_wrong_keys(retry_after: float) -> Throttled:
    """Return the error for a client that sends too many wrong keys. retry_after: seconds."""
    return Throttled(
        "too many wrong API keys from this address; further answers are delayed",
        code="too_many_wrong_keys",
        retry_after=retry_after,
    )


def check_model(caller: Caller, model: str, route: str) -> None:
    """Raise Forbidden unless the key may use the model by either of its names."""
    if not caller.may_use(model, route):
        raise Forbidden(f"the API key {caller.name!r} may not use the model {model!r}")


def _any_matches(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return any(
        pattern in names or (pattern.endswith("*") and _any_begins(names, pattern[:-1]))
        for pattern in patterns
    )


def _any_begins(names: tuple[str, ...], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in names)


def _credential(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name in _CREDENTIALS:
            if name != b"authorization":
                return value
            if value[:7].lower() == b"bearer ":
                return value[7:].strip()
            if value[:6].lower() == b"basic " and (password := _password(value[6:])):
                return password
    return b""


def _password(basic: bytes) -> bytes:
    """Return the password of the user `token`, as whom Databricks' examples send a token.

    https://docs.databricks.com/aws/en/ai-gateway/query-endpoints-beta
    """
    try:
        user, _, password = b64decode(basic.strip(), validate=True).partition(b":")
    except ValueError:
        return b""
    return password if user == b"token" else b""
