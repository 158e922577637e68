"""Cross-checks of `auth.jwt`: identity providers whose tokens are accepted."""

import ipaddress
from importlib.util import find_spec
from urllib.parse import urlsplit

from strowger_gateway.gateway.config.checks.models import check_model_patterns
from strowger_gateway.gateway.config.checks.providers import check_file
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.identities import Issuer

_PACKAGE = "joserfc"
_RISK = "anyone on the way could replace the keys, and then sign tokens"


def check_identities(config: Config, problems: Problems) -> None:
    issuers, place = config.auth.jwt, ("auth", "jwt")
    if not issuers:
        return
    if config.auth.mode == "none" and not problems.at(("auth", "mode")):
        problems.add(place, "mode none ignores tokens; use mode: keys")
    if find_spec(_PACKAGE) is None:
        problems.add(place, f"needs the package {_PACKAGE}; pip install 'strowger-gateway[jwt]'")
    names: dict[str, int] = {}
    urls: dict[str, int] = {}
    for index, issuer in enumerate(issuers):
        path: Path = ("auth", "jwt", index)
        for field, value, known in (("name", issuer.name, names), ("issuer", issuer.issuer, urls)):
            first = known.setdefault(value, index)
            if first != index and not problems.at((*path, field)):
                text = f" is already the {field} of auth.jwt[{first}]"
                problems.add((*path, field), Found(value), text)
        _issuer(issuer, path, problems)
        _rights(issuer, path, config, problems)
    for index, key in enumerate(config.auth.keys):
        if key.name.partition("/")[0] in names and "/" in key.name:
            text = (
                f" is a name of callers with tokens of {key.name.partition('/')[0]!r}; use another"
            )
            problems.add(("auth", "keys", index, "name"), Found(key.name), text)


def token_caller(name: str, config: Config) -> bool:
    """Return whether callers with tokens can have this name, or match this pattern."""
    issuer, slash, rest = name.partition("/")
    return bool(slash and rest) and any(one.name == issuer for one in config.auth.jwt)


def _issuer(issuer: Issuer, path: Path, problems: Problems) -> None:
    for field, url in (("issuer", issuer.issuer), ("jwks_uri", issuer.jwks_uri)):
        if url is not None and not problems.at((*path, field)):
            check_url(url, (*path, field), problems, _RISK)
    for field, given in (("audience", issuer.audience), ("algorithms", issuer.algorithms)):
        if not given and not problems.under((*path, field)):
            problems.add((*path, field), "is empty, so every token would be refused; give one")
    if issuer.ca_file is not None:
        check_file(issuer.ca_file, (*path, "ca_file"), problems)


def check_url(url: str, path: Path, problems: Problems, risk: str) -> None:
    """Check the address of an issuer or of the gateway. risk: of http to other machines."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        problems.add(path, Found(url), " is not a URL such as https://login.example.com/realms/a")
    elif parts.username is not None or parts.password is not None:
        problems.add(path, "must not contain a user or a password")
    elif parts.scheme == "http" and not _is_loopback(host):
        problems.add(
            path,
            Found(url),
            f" is not https: {risk}",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _plan(issuer: Issuer, path: Path, config: Config, problems: Problems) -> None:
    plans = [plan.name for plan in config.plans]
    if problems.under(("plans",)):
        return
    if issuer.plan is not None and issuer.plan not in plans and not problems.at((*path, "plan")):
        hint = nearest(issuer.plan, plans) or "; there are none in plans"
        problems.add((*path, "plan"), "no plan is named ", Found(issuer.plan), hint)
    if issuer.claims.plan is not None and not plans and not problems.under((*path, "claims")):
        text = "refuses every token, because plans has none for it to name"
        problems.add((*path, "claims", "plan"), text)


def _rights(issuer: Issuer, path: Path, config: Config, problems: Problems) -> None:
    """Check the teams and models that tokens may have."""
    teams = [team.name for team in config.teams]
    given: list[tuple[Path, str]] = [
        ((*path, "teams", value), name) for value, name in issuer.teams.items()
    ]
    if issuer.team is not None:
        given.append(((*path, "team"), issuer.team))
    for place, name in given:
        if name not in teams and not problems.at(place) and not problems.under(("teams",)):
            hint = nearest(name, teams) or "; there are none in teams"
            problems.add(place, "no team is named ", Found(name), hint)
    if issuer.teams and issuer.claims.team is None and not problems.under(path):
        problems.add((*path, "claims", "team"), "is missing; teams needs the claim with its values")
    _plan(issuer, path, config, problems)
    if issuer.claims.models is not None and issuer.models != ("*",) and not problems.under(path):
        problems.add((*path, "models"), "conflicts with claims.models; give one of them")
    check_model_patterns(issuer.models, (*path, "models"), config, problems)
