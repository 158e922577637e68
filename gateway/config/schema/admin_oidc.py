"""The shape of `auth.admin_oidc` in config.yaml: the identity provider of operators."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.schema.identities import Algorithm, ClaimPath
from strowger_gateway.gateway.config.schema.units import Name, Path, Seconds
from strowger_gateway.schemas.secret import Secret

Role = Literal["viewer", "operator", "admin"]
"""Each may do what those before it may."""

Scope = Annotated[str, Meta(pattern=r"^[!#-\[\]-~]{1,128}$", description="a scope of OAuth 2.0")]


class AdminOidc(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sign in to /admin with OpenID Connect: authorization code flow with PKCE.

    name:          on the button: Sign in with NAME.
    issuer:        the claim `iss`, letter by letter; its endpoints are found by discovery.
    client_secret: of a confidential client; "" for a public one.
    public_url:    the gateway's address in browsers, without a path.
    token_auth:    how the secret is sent; auto: the provider's discovery document decides.
    role_claim:    text, or a list of text. roles: role by its value; the highest one counts.
    default_role:  of people without any of these values; `None` refuses them.
    user_claim:    who it is, on the page and in logs; `None`: email if verified, else
                   preferred_username, else sub.
    team_claim:    text or a list of text: whose keys an operator may manage.
    teams:         team by value of `team_claim`; {}: its values are the names of teams.
    require, leeway_s, max_stale_s, ca_file, proxy: as of auth.jwt[].
    timeout_s:     of all that one sign-in fetches from the provider.
    """

    issuer: Name
    client_id: Name
    public_url: Name
    role_claim: ClaimPath
    name: Annotated[str, Meta(min_length=1, max_length=64)] = "your identity provider"
    client_secret: Secret = Secret("")
    token_auth: Literal["auto", "basic", "post"] = "auto"
    scopes: tuple[Scope, ...] = ("openid", "profile", "email")
    roles: Mapping[str, Role] = {}
    default_role: Role | None = None
    user_claim: ClaimPath | None = None
    team_claim: ClaimPath | None = None
    teams: Mapping[str, Name] = {}
    require: Mapping[str, str] = {}
    algorithms: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    leeway_s: Annotated[float, Meta(ge=0, le=300)] = 30.0
    max_stale_s: Seconds = 86_400.0
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 10.0
    ca_file: Path | None = None
    proxy: Secret | None = None
