"""Cross-checks of a decoded configuration: rules that involve several fields."""

import ipaddress
import re
from collections.abc import Mapping

from gateway.config.adapter_names import Defaults
from gateway.config.checks.capabilities import check_honoured
from gateway.config.checks.client_fields import check_client_fields
from gateway.config.checks.experiments import check_experiments
from gateway.config.checks.ineffective import warn_ineffective
from gateway.config.checks.limits import check_limits
from gateway.config.checks.metrics import check_metrics
from gateway.config.checks.models import check_models, matches
from gateway.config.checks.providers import check_file, check_key, check_providers
from gateway.config.checks.responses import check_responses
from gateway.config.checks.routing import check_routing
from gateway.config.checks.when_rules import check_rules
from gateway.config.problems import Found, Path, Problems, nearest
from gateway.config.schema import Config, Model, ServerConfig
from gateway.config.schema_store import check_store

SHORTEST_KEY = 12
"""Characters of a key; shorter ones get a warning."""

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@A-Z\s]+/?")
"""As browsers send it, or "*" for any; a trailing / is allowed. https://www.rfc-editor.org/rfc/rfc6454#section-6.2"""


def check(config: Config, problems: Problems, adapters: Mapping[str, Defaults]) -> None:
    """Record faults; skip places that already have one."""
    _server(config.server, problems)
    check_providers(config.providers, problems, adapters)
    check_client_fields(config.providers, problems, adapters)
    check_models(config, problems)
    check_rules(config, problems)
    check_routing(config, problems)
    check_store(config.store, problems)
    check_responses(config, problems)
    check_experiments(config, problems)
    check_metrics(config, problems)
    check_limits(config, problems)
    check_honoured(config, problems, adapters)
    warn_ineffective(config, problems)
    _default_model(config, problems)
    _auth(config, problems)


def _server(server: ServerConfig, problems: Problems) -> None:
    _fetch(server, problems)
    for index, origin in enumerate(server.cors.allow_origins):
        place: Path = ("server", "cors", "allow_origins", index)
        if not _ORIGIN.fullmatch(origin) and not problems.at(place):
            problems.add(
                place,
                Found(origin),
                " is not an origin, so it matches no page; write it as https://app.example.com, "
                "with the port if it has one, in lower case and without a path",
            )
    path: Path = ("server", "max_body_bytes")
    sizes = (path, ("server", "max_buffered_bytes"))
    if server.max_body_bytes > server.max_buffered_bytes and not any(map(problems.at, sizes)):
        problems.add(
            path,
            f"{server.max_body_bytes} is more than server.max_buffered_bytes "
            f"({server.max_buffered_bytes}), the limit for all bodies together",
        )


def _fetch(server: ServerConfig, problems: Problems) -> None:
    _networks(server.fetch.allow, ("server", "fetch", "allow"), problems)
    _networks(server.fetch.deny, ("server", "fetch", "deny"), problems)
    _networks(server.trusted_proxies, ("server", "trusted_proxies"), problems)
    if server.fetch.ca_file is not None:
        check_file(server.fetch.ca_file, ("server", "fetch", "ca_file"), problems)


def _networks(networks: tuple[str, ...], path: Path, problems: Problems) -> None:
    for index, network in enumerate(networks):
        try:
            ipaddress.ip_network(network)
        except ValueError:
            if not problems.at((*path, index)):
                text = " is not a network; write it as 10.1.0.0/16"
                problems.add((*path, index), Found(network), text)


def _default_model(config: Config, problems: Problems) -> None:
    name = config.server.default_model
    path: Path = ("server", "default_model")
    if name is None or problems.at(path) or problems.under(("models",)):
        return
    names = [name for model in config.models for name in (model.name, *model.aliases)]
    if not any(matches(known, name) for known in names) or name.endswith("*"):
        problems.add(path, "no model is named ", Found(name), nearest(name, names))


def _auth(config: Config, problems: Problems) -> None:
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
    if auth.mode == "keys" and not auth.keys and not problems.at(("auth", "keys")):
        problems.add(("auth", "keys"), "mode keys requires at least one key")
    if auth.mode == "none" and auth.keys and not problems.under(("auth",)):
        problems.add(("auth", "keys"), "mode none ignores keys; use mode: keys")
    _keys(config, problems)


def _keys(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    secrets: dict[str, int] = {}
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
        check_key(key.key, (*path, "key"), problems)
        _warn_short(secret, (*path, "key"), problems)
        first = secrets.setdefault(secret, index)
        if first != index:
            problems.add(
                (*path, "key"),
                f"is the same as auth.keys[{first}]; give each client its own key",
            )
    _admin_key(config, secrets, problems)
    for index, key in enumerate(config.auth.keys):
        for place, pattern in enumerate(key.models):
            _key_model(pattern, ("auth", "keys", index, "models", place), config.models, problems)


def _admin_key(config: Config, secrets: dict[str, int], problems: Problems) -> None:
    """secrets: index in auth.keys by key."""
    auth = config.auth
    for path, secret, owner in (
        (("auth", "admin_key"), auth.admin_key, "the operator's key"),
        (("auth", "metrics_key"), auth.metrics_key, "the key for /metrics"),
    ):
        if problems.at(path) or not secret.reveal():
            continue
        check_key(secret, path, problems)
        _warn_short(secret.reveal(), path, problems)
        first = secrets.get(secret.reveal())
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


def _key_model(pattern: str, path: Path, models: tuple[Model, ...], problems: Problems) -> None:
    names = [name for model in models for name in (model.name, *model.aliases)]
    if problems.at(path) or (problems.under(("models",)) and "" in names) or pattern == "*":
        return
    if "*" in pattern[:-1]:
        problems.add(
            path, Found(pattern), " contains a * before its end; * is a wildcard only at the end"
        )
    elif not any(matches(pattern, name) or matches(name, pattern) for name in names):
        problems.add(path, "no model is named ", Found(pattern), nearest(pattern, names))


def is_loopback(host: str) -> bool:
    """True if only this machine can reach a listener at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
