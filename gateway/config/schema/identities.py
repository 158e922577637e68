"""The shape of `auth.jwt` in config.yaml: whose tokens are accepted, and what their claims mean."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.units import MOST_URGENT, Name, Path, Seconds
from strowger_gateway.schemas.secret import Secret

Algorithm = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
]
"""Signatures with a private and a public key: only the issuer can make them."""

IssuerName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="up to 64 letters, digits and . - _, starting with a letter or digit",
    ),
]
ClaimPath = Annotated[str, Meta(min_length=1, max_length=256)]
"""A claim, or with dots a field within a claim: realm_access.roles."""


class Claims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which claims say who the caller is and what it may use; `None`: none of them.

    name:         the caller's, text. user: text, for limits by user.
    team:         text or a list of text. models, a list of text, or text with spaces in between.
    max_priority: a number from 1 to 5.
    plan:         text or a list of text: the first plan of the configuration that it names.
    """

    name: ClaimPath = "sub"
    user: ClaimPath | None = None
    team: ClaimPath | None = None
    models: ClaimPath | None = None
    max_priority: ClaimPath | None = None
    plan: ClaimPath | None = None


class Issuer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An identity provider whose tokens are accepted.

    name:        callers are named NAME/ and their claim.
    issuer:      the claim `iss`, letter by letter.
    audience:    the claim `aud` must have one of them.
    jwks_uri:    its keys; `None` finds them by OpenID Connect Discovery.
    leeway_s:    how far its clock and ours may differ.
    max_stale_s: how long its keys are used while it cannot be reached.
    require:     claims that a token must have, with these values.
    teams:       team by value of `claims.team`; {}: its values are the names of teams.
    team, models, max_priority, plan: of tokens without such a claim.
    """

    name: IssuerName
    issuer: Name
    audience: tuple[Name, ...]
    jwks_uri: Name | None = None
    algorithms: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    leeway_s: Annotated[float, Meta(ge=0, le=300)] = 30.0
    max_stale_s: Seconds = 86_400.0
    ca_file: Path | None = None
    proxy: Secret | None = None
    claims: Claims = Claims()
    require: Mapping[str, str] = {}
    teams: Mapping[str, Name] = {}
    team: Name | None = None
    models: tuple[Name, ...] = ("*",)
    max_priority: Annotated[int, Meta(ge=1, le=5)] = MOST_URGENT
    plan: Name | None = None
