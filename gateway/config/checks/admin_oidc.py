"""Cross-checks of `auth.admin_oidc`: the identity provider that operators sign in with."""

from importlib.util import find_spec
from urllib.parse import urlsplit

from strowger_gateway.gateway.config.checks.identities import check_url
from strowger_gateway.gateway.config.checks.providers import check_file
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.admin_oidc import AdminOidc
from strowger_gateway.gateway.config.schema.config import Config

_PACKAGE = "joserfc"
_PLACE: Path = ("auth", "admin_oidc")


def check_admin_oidc(config: Config, problems: Problems) -> None:
    settings = config.auth.admin_oidc
    if settings is None:
        return
    if find_spec(_PACKAGE) is None:
        problems.add(_PLACE, f"needs the package {_PACKAGE}; pip install 'strowger-gateway[jwt]'")
    for field, url in (("issuer", settings.issuer), ("public_url", settings.public_url)):
        if not problems.at((*_PLACE, field)):
            check_url(url, (*_PLACE, field), problems, _RISKS[field])
    _public_url(settings, problems)
    _scopes(settings, problems)
    _rights(settings, config, problems)
    if not settings.algorithms and not problems.under((*_PLACE, "algorithms")):
        problems.add(
            (*_PLACE, "algorithms"), "is empty, so every sign-in would be refused; give one"
        )
    if settings.ca_file is not None:
        check_file(settings.ca_file, (*_PLACE, "ca_file"), problems)


_RISKS = {
    "issuer": "anyone on the way could let themselves in",
    "public_url": "anyone on the way could read the codes and the sessions of operators",
}


def _public_url(settings: AdminOidc, problems: Problems) -> None:
    place = (*_PLACE, "public_url")
    if problems.at(place):
        return
    if urlsplit(settings.public_url).path not in ("", "/"):
        problems.add(
            place,
            Found(settings.public_url),
            " has a path; give the scheme and the host only, as in https://gateway.example.com",
        )


def _scopes(settings: AdminOidc, problems: Problems) -> None:
    if "openid" not in settings.scopes and not problems.under((*_PLACE, "scopes")):
        problems.add((*_PLACE, "scopes"), "lacks openid, without which there is no ID token")


def _rights(settings: AdminOidc, config: Config, problems: Problems) -> None:
    if not settings.roles and settings.default_role is None and not problems.under(_PLACE):
        problems.add(
            (*_PLACE, "roles"),
            "is empty, and there is no default_role, so every sign-in would be refused; give a "
            f"value of {settings.role_claim} and its role",
        )
    if settings.default_role == "admin" and not problems.at((*_PLACE, "default_role")):
        problems.warn(
            (*_PLACE, "default_role"),
            "is admin: every user of the provider can do everything at this gateway",
        )
    if settings.teams and settings.team_claim is None and not problems.under(_PLACE):
        problems.add((*_PLACE, "team_claim"), "is missing; teams needs the claim with its values")
    teams = [team.name for team in config.teams]
    for value, name in settings.teams.items():
        place = (*_PLACE, "teams", value)
        if name not in teams and not problems.at(place) and not problems.under(("teams",)):
            hint = nearest(name, teams) or "; there are none in teams"
            problems.add(place, "no team is named ", Found(name), hint)
