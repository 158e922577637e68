"""Cross-checks of `auth` and `teams`."""

import ipaddress
import re
from hashlib import sha256

from strowger_gateway.gateway.config.checks.credentials import check_key
from strowger_gateway.gateway.config.checks.models import check_model_patterns
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.auth import HASHED
from strowger_gateway.gateway.config.schema.config import Config

SHORTEST_KEY = 12
"""Characters of a key; shorter ones get a warning."""

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


def check_access(config: Config, problems: Problems) -> None:
    """Check who may call, with which key, and what."""
    auth, host = config.auth, config.server.host
    mode: Path = ("auth", "mode")
    if problems.at(mode) or problems.at(("server", "host")):
        pass
    elif auth.mode == "none" and not auth.allow_open and not is_loopback(host):
        problems.add(
            mode,
            "none serves every client that can reach server.host ",
            Found(host),
            "; use mode: keys, a loopback host such as 127.0.0.1, or allow_open: true",
        )
    if auth.mode == "keys" and not auth.keys and not auth.jwt and not problems.at(("auth", "keys")):
        problems.warn(
            ("auth", "keys"),
            "is empty, so only issued keys are valid (strowger keys create), and none of them "
            "while the store is unreachable at start",
        )
    if auth.mode == "none" and auth.keys and not problems.under(("auth",)):
        problems.add(("auth", "keys"), "mode none ignores keys; use mode: keys")
    _keys(config, problems)


def _keys(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    secrets: dict[bytes, int] = {}
    for index, key in enumerate(config.auth.keys):
        path: Path = ("auth", "keys", index)
        first = names.setdefault(key.name, index)
        if first != index and not problems.at((*path, "name")):
            problems.add(
                (*path, "name"), Found(key.name), f" is already the name of auth.keys[{first}]"
            )
        if problems.at((*path, "key")):
            continue
        secret = key.key.reveal()
        if not secret:
            problems.add((*path, "key"), "is empty; give a random key")
            continue
        if secret.startswith(HASHED):
            if not _DIGEST.fullmatch(secret.removeprefix(HASHED)):
                problems.add(
                    (*path, "key"),
                    f"expected {HASHED} and the 64 hexadecimal digits of its SHA-256",
                )
                continue
        else:
            check_key(key.key, (*path, "key"), problems)
            _warn_short(secret, (*path, "key"), problems)
        first = secrets.setdefault(key.digest, index)
        if first != index:
            problems.add(
                (*path, "key"),
                f"is the same as auth.keys[{first}]; give each client its own key",
            )
    _admin_key(config, secrets, problems)
    for index, key in enumerate(config.auth.keys):
        check_model_patterns(key.models, ("auth", "keys", index, "models"), config, problems)
    _teams(config, problems)
    _bound_keys(config, problems)


def _teams(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    for index, team in enumerate(config.teams):
        path: Path = ("teams", index)
        first = names.setdefault(team.name, index)
        if first != index and not problems.at((*path, "name")):
            problems.add(
                (*path, "name"), Found(team.name), f" is already the name of teams[{first}]"
            )
        check_model_patterns(team.models, (*path, "models"), config, problems)
    for index, key in enumerate(config.auth.keys):
        path = ("auth", "keys", index, "team")
        if key.team is not None and key.team not in names and not problems.at(path):
            hint = nearest(key.team, names) or "; there are none in teams"
            problems.add(path, "no team is named ", Found(key.team), hint)


def _admin_key(config: Config, secrets: dict[bytes, int], problems: Problems) -> None:
    """secrets: index in auth.keys by digest."""
    auth = config.auth
    for path, secret, owner in (
        (("auth", "admin_key"), auth.admin_key, "the operator's key"),
        (("auth", "metrics_key"), auth.metrics_key, "the key for /metrics"),
    ):
        if problems.at(path) or not secret.reveal():
            continue
        if secret.reveal().startswith(HASHED):
            problems.add(path, f"only the keys of auth.keys may be given as {HASHED}…")
            continue
        check_key(secret, path, problems)
        _warn_short(secret.reveal(), path, problems)
        first = secrets.get(sha256(secret.reveal().encode()).digest())
        if first is not None:
            problems.add(path, f"is the same as auth.keys[{first}]; no client may have {owner}")
    if auth.metrics_key.reveal() and auth.metrics_key.reveal() == auth.admin_key.reveal():
        problems.add(
            ("auth", "metrics_key"), "is the same as auth.admin_key; give the scraper its own key"
        )


def _warn_short(secret: str, path: Path, problems: Problems) -> None:
    if len(secret) < SHORTEST_KEY:
        problems.warn(
            path,
            f"has only {len(secret)} characters and can be guessed; use 16 random ones or "
            "more, for example from `openssl rand -hex 16`",
        )


def is_loopback(host: str) -> bool:
    """True if only this machine can reach a listener at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _bound_keys(config: Config, problems: Problems) -> None:
    """Check the keys that are bound to client certificates."""
    tls = config.server.tls
    for index, key in enumerate(config.auth.keys):
        path: Path = ("auth", "keys", index, "client_certificates")
        if key.client_certificates and (tls is None or tls.client_ca is None):
            problems.add(path, "needs server.tls.client_ca: without it no client has a certificate")
