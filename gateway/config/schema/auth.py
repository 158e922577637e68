"""The shape of `auth` and `teams` in config.yaml: who may call, and what."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.admin_oidc import AdminOidc
from strowger_gateway.gateway.config.schema.budgets import OwnBudgets
from strowger_gateway.gateway.config.schema.identities import Issuer
from strowger_gateway.gateway.config.schema.limits import OwnLimits
from strowger_gateway.gateway.config.schema.units import MOST_URGENT, Name
from strowger_gateway.schemas.secret import Secret

HASHED = "sha256:"
"""Prefix of a key that is given as its SHA-256 in hexadecimal instead of itself."""


class Team(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the keys of a team may use, at most.

    models: names, aliases or wildcards; a key may use a model if it and its team may.
    limits, budgets: of all its keys together, or of every end user of them.
    """

    name: Name
    models: tuple[Name, ...] = ("*",)
    limits: OwnLimits = ()
    budgets: OwnBudgets = ()


class CallerPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each caller may use whose token names the plan.

    limits: of every caller for itself, or of every end user of it.
    """

    name: Name
    limits: OwnLimits = ()


class Key(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One client's key.

    key:          the secret, or `sha256:` and its digest in hexadecimal.
    models:       names, aliases or wildcards that it may use.
    max_priority: the most urgent priority that it gets; 1 is the most urgent of all.
    team:         a team of `teams`, whose models limit the key's.
    tags:         free texts, by which usage is reported.
    client_certificates: names or subjects of the certificates with which it may be used; (): any.
    background:   its requests wait behind all others, whatever priority they name.
    """

    name: Name
    key: Secret
    models: tuple[Name, ...] = ("*",)
    max_priority: Annotated[int, Meta(ge=1, le=5)] = MOST_URGENT
    team: Name | None = None
    tags: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    client_certificates: tuple[Name, ...] = ()
    background: bool = False

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the secret."""
        from hashlib import sha256  # late: the importing process loads this file, and no OpenSSL

        secret = self.key.reveal()
        if secret.startswith(HASHED):
            return bytes.fromhex(secret.removeprefix(HASHED))
        return sha256(secret.encode()).digest()


class Auth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """mode none serves every client, hence only on loopback unless `allow_open`.

    keys:    besides those issued into the store.
    jwt:     identity providers whose tokens are accepted besides keys.
    metrics: who may read /metrics under mode keys; metrics_key: a key for that alone.
    admin_oidc: the identity provider for /admin. admin_session_s: how long a sign-in lasts.
    """

    mode: Literal["none", "keys"] = "none"
    allow_open: bool = False
    keys: tuple[Key, ...] = ()
    jwt: tuple[Issuer, ...] = ()
    admin_key: Secret = Secret("")
    admin_oidc: AdminOidc | None = None
    admin_session_s: Annotated[int, Meta(ge=60, le=2_592_000)] = 43_200
    metrics: Literal["admin", "client", "open"] = "admin"
    metrics_key: Secret = Secret("")

    @property
    def admin(self) -> bool:
        """Whether /admin exists: there is a way in."""
        return bool(self.admin_key.reveal()) or self.admin_oidc is not None
