"""Check a verified token's claims, and find out who its caller is and what it may use."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, cast

from strowger_gateway.gateway.config.schema.auth import Team
from strowger_gateway.gateway.config.schema.identities import Issuer
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.governance.identities.refusals import (
    EarlyToken,
    ExpiredToken,
    TokenNotAllowed,
    WrongToken,
)
from strowger_gateway.gateway.governance.issued_keys.keys_in_effect import instant
from strowger_gateway.schemas.holdings import Holder

Claims = Mapping[str, object]
OfIssuer = TypeVar("OfIssuer")
LONGEST: Final = 128
"""Characters of a caller's name or user."""

_MOST_VALUES: Final = 1000
_LATEST: Final = 253_402_300_799
"""The last second of the year 9999."""


def issuer_of(claims: Claims, known: Mapping[str, OfIssuer]) -> OfIssuer:
    """Return what is known of the token's issuer. known: by the claim `iss`. Raises WrongToken."""
    name = claims.get("iss")
    found = known.get(name) if isinstance(name, str) else None
    if found is None:
        raise WrongToken("claim iss: the gateway accepts no tokens of this issuer")
    return found


def check_claims(claims: Claims, issuer: Issuer, at: float) -> float:
    """Check when and for whom the token was issued. Return until when it is valid, Unix seconds.

    Raises ExpiredToken, EarlyToken, WrongToken and TokenNotAllowed.
    """
    expires = _time(claims, "exp")
    if expires is None:
        raise WrongToken("claim exp: is missing; only tokens that expire are accepted")
    until = expires + issuer.leeway_s
    if at >= until:
        raise ExpiredToken(f"claim exp: the token expired at {instant(expires)}; get a new one")
    begins = _time(claims, "nbf")
    if begins is not None and at < begins - issuer.leeway_s:
        raise EarlyToken(f"claim nbf: the token is not valid before {instant(begins)}")
    issued = _time(claims, "iat")
    if issued is not None and at < issued - issuer.leeway_s:
        raise EarlyToken(
            f"claim iat: the token was issued at {instant(issued)}, which is in the future; "
            "synchronise the clocks"
        )
    if not any(one in issuer.audience for one in _texts(claims.get("aud"))):
        raise WrongToken(
            "claim aud: the token is not for this gateway; request it for the gateway's audience"
        )
    for path, value in issuer.require.items():
        if value not in _texts(claim_at(claims, path)):
            raise TokenNotAllowed(
                f"claim {path}: lacks the value that the gateway requires; ask its operator"
            )
    return until


def caller_of(
    claims: Claims, issuer: Issuer, teams: Mapping[str, Team], plans: Sequence[str] = ()
) -> Caller:
    """Raises WrongToken, and Forbidden if the claims do not admit the caller.

    plans: their names, in the configuration's order.
    """
    paths = issuer.claims
    team = _team(claims, issuer, teams)
    team_models = None if team is None or "*" in team.models else team.models
    name = f"{issuer.name}/{_text(claims, paths.name)}"
    return Caller(
        name=name,
        models=issuer.models if paths.models is None else _models(claims, paths.models),
        max_priority=_priority(claims, issuer),
        team="" if team is None else team.name,
        team_models=team_models,
        user="" if paths.user is None else _text(claims, paths.user),
        plan=_plan(claims, issuer, plans),
        holder=Holder(name, "" if team is None else team.name),
    )


def claim_at(claims: Claims, path: str) -> object:
    """Return the claim of this name or, with dots, the field within one; `None` without it.

    A name may contain dots itself: https://example.com/roles.
    """
    if path in claims:
        return claims[path]
    place = path.find(".")
    while place > 0:
        inner = claims.get(path[:place])
        if isinstance(inner, dict):
            found = claim_at(cast("dict[str, object]", inner), path[place + 1 :])
            if found is not None:
                return found
        place = path.find(".", place + 1)
    return None


def _time(claims: Claims, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WrongToken(f"claim {name}: expected seconds since 1970")
    return min(max(float(value), 0.0), _LATEST)


def _text(claims: Claims, path: str) -> str:
    value = claim_at(claims, path)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise TokenNotAllowed(f"claim {path}: is missing, and the gateway needs it as a text")
    if len(value) > LONGEST or not value.isprintable():
        raise TokenNotAllowed(f"claim {path}: has over {LONGEST} characters, or unprintable ones")
    return value


def _texts(value: object) -> Sequence[str]:
    """Return the texts of a claim that is a text or a list."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return [one for one in cast("list[object]", value)[:_MOST_VALUES] if isinstance(one, str)]
    return ()


def _models(claims: Claims, path: str) -> tuple[str, ...]:
    """Return the patterns of a list, or of a text with spaces, as scopes have them."""
    value = claim_at(claims, path)
    return tuple(value.split()) if isinstance(value, str) else tuple(_texts(value))


def _team(claims: Claims, issuer: Issuer, teams: Mapping[str, Team]) -> Team | None:
    """Return the first team that the claim names, in the configuration's order."""
    path = issuer.claims.team
    if path is not None:
        values = frozenset(_texts(claim_at(claims, path)))
        named = issuer.teams or {name: name for name in teams}
        for value, name in named.items():
            if value in values:
                return teams[name]
    if issuer.team is not None:
        return teams[issuer.team]
    if path is not None:
        raise TokenNotAllowed(
            f"claim {path}: names no team of the gateway; ask its operator", code="team_not_found"
        )
    return None


def _plan(claims: Claims, issuer: Issuer, plans: Sequence[str]) -> str:
    """Return the first plan that the claim names, "" if plans are not used.

    A claim without a known plan is refused, whatever `issuer.plan` is: a plan that is misspelt on
    either side must not become another one silently.
    """
    path = issuer.claims.plan
    value = None if path is None else claim_at(claims, path)
    if value is None:
        if path is not None and issuer.plan is None:
            raise TokenNotAllowed(f"claim {path}: is missing, and the gateway needs a plan in it")
        return issuer.plan or ""
    if not isinstance(value, str | list):
        raise TokenNotAllowed(f"claim {path}: expected the name of a plan, or a list of names")
    values = frozenset(_texts(cast("str | list[object]", value)))
    for name in plans:
        if name in values:
            return name
    raise TokenNotAllowed(f"claim {path}: names no plan of the gateway; ask its operator")


def _priority(claims: Claims, issuer: Issuer) -> int:
    path = issuer.claims.max_priority
    value = None if path is None else claim_at(claims, path)
    if value is None:
        return issuer.max_priority
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 5:
        raise TokenNotAllowed(f"claim {path}: expected a priority from 1 to 5")
    return number
