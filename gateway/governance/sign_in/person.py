"""Find out from verified claims who signed in, and with which role."""

from typing import Final, cast

from strowger_gateway.gateway.config.schema.admin_oidc import AdminOidc
from strowger_gateway.gateway.governance.identities.claims import LONGEST, Claims, claim_at
from strowger_gateway.gateway.governance.sessions.principal import Principal, highest
from strowger_gateway.gateway.governance.sign_in.refusals import NoRole, RefusedToken

_MOST_VALUES: Final = 1000


def person_of(claims: Claims, settings: AdminOidc) -> Principal:
    """Raises RefusedToken, and NoRole if none of the roles is for this person."""
    subject = _text(claims.get("sub"))
    if subject is None:
        raise RefusedToken("claim sub: is missing")
    name = _name(claims, settings, subject)
    values = _values(claims, settings.role_claim)
    role = highest([role for value, role in settings.roles.items() if value in values])
    role = role or settings.default_role
    if role is None:
        raise NoRole(
            f"{name} has no role here: none of the values of the claim {settings.role_claim} is in "
            "auth.admin_oidc.roles; ask the gateway's operator"
        )
    return Principal(
        kind="provider", name=name, role=role, subject=subject, teams=_teams(claims, settings)
    )


def _name(claims: Claims, settings: AdminOidc, subject: str) -> str:
    """An address that the provider has not verified can be anyone's."""
    if settings.user_claim is not None:
        name = _text(_values_or_none(claims, settings.user_claim))
        if name is None:
            raise RefusedToken(
                f"claim {settings.user_claim}: is missing, or not up to {LONGEST} printable "
                "characters; see auth.admin_oidc.user_claim"
            )
        return name
    email = _text(claims.get("email")) if _verified(claims) else None
    return email or _text(claims.get("preferred_username")) or subject


def _values_or_none(claims: Claims, path: str) -> object:
    if path == "email" and not _verified(claims):
        return None
    return claim_at(claims, path)


def _verified(claims: Claims) -> bool:
    """https://openid.net/specs/openid-connect-core-1_0.html#StandardClaims"""
    return claims.get("email_verified") in (True, "true")


def _values(claims: Claims, path: str) -> frozenset[str]:
    value = _values_or_none(claims, path)
    if isinstance(value, str):
        return frozenset((value,))
    if isinstance(value, list):
        values = cast("list[object]", value)[:_MOST_VALUES]
        return frozenset(one for one in values if isinstance(one, str))
    return frozenset()


def _teams(claims: Claims, settings: AdminOidc) -> tuple[str, ...]:
    if settings.team_claim is None:
        return ()
    values = _values(claims, settings.team_claim)
    if not settings.teams:
        return tuple(sorted(values))
    return tuple(dict.fromkeys(team for value, team in settings.teams.items() if value in values))


def _text(value: object) -> str | None:
    if isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable():
        return value
    return None
